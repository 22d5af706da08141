"""Every page of the dashboard with odd queries, and every path with forms and other methods: never a 500.

No page changes a table, and neither does what is refused. The pages and their parameters are those that
FastAPI knows.
tests/web/test_schemathesis.py tries the API with the JSON that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus

import pytest
from fastapi import FastAPI
from hypothesis import strategies as st
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.web import create_app, pages
from lonnymq.web.pages.tenant import SIMULATED
from tests.fuzz.examples import try_many
from tests.fuzz.filled_queue import Conn, Tables, fill
from tests.fuzz.odd_texts import DURATIONS, NUMBERS, RATES, TEXTS, TIMES
from tests.web.conftest import PERSON, access_by_header
from tests.web.routes import CHANGING, routes_of

ENDLESS = {"/live"}
"""It sends events as long as the page is open, and has no parameters."""
MORE = {"/tenant": SIMULATED}
"""Parameters that a page takes from the query itself."""
LONG = {"x" * 100_000, "9" * 5_000}
"""httpx refuses longer addresses; tests/web/test_gate.py sends long ones."""
CURSORS = (
    '["a", 0, 0, 1]',
    '["\\u0001", 32767, -999999999999999999, 999999999999999999]',
    '["a", 9999, 1, 1]',
    '["\\ud800", 0, 0, 1]',
    "[]",
)
OCTETS = ("%00", "a%00b", "%ff", "%ed%a0%80", "%", "%zz", "%F0%9F%98%80", "a;b", "a#b", "+", "%2B")
PEOPLE = ("ann", "reader", "clerk", "acme")


def parameters() -> dict[str, list[str]]:
    """The parameters of each page."""
    app = FastAPI()
    app.include_router(pages.router)
    found = {
        path: [one["name"] for one in operations["get"].get("parameters", ())]
        for path, operations in app.openapi()["paths"].items()
    }
    return {path: [*names, *MORE.get(path, ())] for path, names in found.items()}


def values(known: list[str]) -> st.SearchStrategy[str]:
    """Percent-encoded values, of the page's kinds or any."""
    odd = (
        *TEXTS,
        *NUMBERS,
        *TIMES,
        *DURATIONS,
        *RATES,
        *CURSORS,
        *known,
        "error",
        "tenant",
        "open",
        "served",
    )
    anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    encoded = st.one_of(st.sampled_from([one for one in odd if one not in LONG]), anything).map(quote_plus)
    return st.one_of(encoded, encoded, st.sampled_from(OCTETS))


class Pages:
    """Asks for pages, and collects what is wrong."""

    def __init__(self, conn: Conn, client: TestClient) -> None:
        self.known = [*map(str, fill(conn).ids[:4]), "a", "mine"]
        self.known += [row[0] for row in conn.execute("SELECT fingerprint FROM dead_groups()").fetchall()]
        self.tables = Tables(conn)
        self.client = client
        self.statuses: set[int] = set()
        self.wrong: list[str] = []

    def ask(self, method: str, path: str, **sent: Any) -> None:
        shown = f"{method} {path[:300]} {sent!s:.300}"
        try:
            answer = self.client.request(method, path, follow_redirects=False, **sent)
        except Exception as error:  # noqa: BLE001 - what the application raised
            self.wrong.append(f"{type(error).__name__} {error!s:.300}: {shown}")
            return
        self.statuses.add(answer.status_code)
        if answer.status_code >= 500 or "Traceback (most recent call last)" in answer.text:
            self.wrong.append(f"{answer.status_code} {answer.text[-300:]}: {shown}")


@pytest.fixture
def asked(conn: Conn, dsn: str) -> Iterator[Pages]:
    with Queue(dsn, pool_size=2) as queue:
        app = create_app(queue, access=access_by_header)
        yield Pages(conn, TestClient(app, base_url="http://localhost"))
        app.close()


@pytest.mark.parametrize(
    "examples", [10, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
def test_odd_queries(asked: Pages, examples: int) -> None:
    before = asked.tables.digest()
    for path, names in parameters().items():

        def ask(data: st.DataObject, path: str = path, names: list[str] = names) -> None:
            given = [name for name in names if data.draw(st.integers(0, 3)) or len(names) == 1]
            extra = data.draw(st.sampled_from([[], [], ["nonsense"], given[:1]]))
            query = "&".join(f"{name}={data.draw(values(asked.known))}" for name in [*given, *extra])
            asked.ask("GET", f"{path}?{query}", headers={PERSON: data.draw(st.sampled_from(PEOPLE))})

        try_many(examples, ask)
    assert not asked.wrong, "\n".join(asked.wrong[:30])
    assert {200, 422} <= asked.statuses
    assert asked.tables.digest() == before, "a page changed a table"


@pytest.mark.parametrize(
    "examples", [3, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
def test_forms_and_other_methods(asked: Pages, examples: int) -> None:
    """The dashboard takes changes as JSON at its API, so each form is refused."""
    before = asked.tables.digest()
    known: dict[str, set[str]] = {}
    for path, methods in routes_of(asked.client.app):  # type: ignore[arg-type]
        known.setdefault(path, set()).update(methods)
    assert parameters().keys() < known.keys()
    for path in sorted(known.keys() - ENDLESS):
        fitting = sorted(known[path] & CHANGING) or sorted(CHANGING)

        def ask(data: st.DataObject, path: str = path, fitting: list[str] = fitting) -> None:
            for part in ("{message_id}", "{batch_id}", "{path:path}"):
                path = path.replace(part, data.draw(values(asked.known)))
            names = st.sampled_from(
                ["name", "channel", "ids", "id", "worker", "wanted", "paused", "", "a[b]"]
            )
            texts = st.sampled_from([one for one in (*TEXTS, *NUMBERS) if one not in LONG])
            form = data.draw(st.dictionaries(names, texts, max_size=4))
            sent: dict[str, Any] = data.draw(
                st.sampled_from(
                    [
                        {"data": form},
                        {"files": {name: ("f", text) for name, text in form.items()} or {"f": ("f", "x")}},
                        {
                            "content": b"\xff\x00",
                            "headers": {"content-type": "application/x-www-form-urlencoded"},
                        },
                        {
                            "content": b"--x\r\n",
                            "headers": {"content-type": "multipart/form-data; boundary=x"},
                        },
                        {"content": b"x", "headers": {"content-type": "multipart/form-data"}},
                        {"content": b"[" * 50_000, "headers": {"content-type": "application/json"}},
                        {
                            "content": b'{"a": 1e999, "b": \xff}',
                            "headers": {"content-type": "application/json"},
                        },
                        {"content": b"{}", "headers": {"content-type": "application/json; charset=odd"}},
                    ]
                )
            )
            method = data.draw(
                st.sampled_from([*fitting, *fitting, *sorted(CHANGING), "OPTIONS", "PROPFIND"])
            )
            asked.ask(method, path, **{**sent, "headers": {PERSON: "ann", **sent.get("headers", {})}})

        try_many(examples, ask)
    assert not asked.wrong, "\n".join(asked.wrong[:30])
    assert {405, 422} <= asked.statuses
    assert not asked.statuses & {200, 201, 204}, asked.statuses
    assert asked.tables.digest() == before, "a form changed a table"
