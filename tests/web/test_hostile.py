"""Names, errors and payloads that try to become markup, scripts or headers."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from playwright.sync_api import expect

from lonnymq import Queue
from lonnymq.formatting import printable
from lonnymq.web import create_app
from tests.web.browser import opened_tab, served, started_browser
from tests.web.conftest import As, access_by_header
from tests.web.filled import Filled, fill
from tests.web.routes import CHANGING, readable_paths, routes_of

OWNED = "window.owned=1;document.title='owned'"
MARKS = (
    (
        f'<script>{OWNED}</script><img src=x onerror="{OWNED}">"onload="{OWNED}" \''
        "{{7*7}}{%raise%}\r\nX: 1"
    ),
    f"javascript:{OWNED}//../?a=1&b#c%00%2f\\u202e\u202e\u2066\u200b😀]]>--><!--",
)
OPEN = "/healthz"
NO_PAGES = {"/live", "/metrics", OPEN}


@pytest.fixture(scope="module")
def hostile(queue: Queue) -> list[Filled]:
    found = []
    for mark in MARKS:
        tenant = mark + "é" * ((255 - len(mark.encode())) // 2)
        of = fill(queue, tenant, mark)
        entry = queue.audit_begin(mark, mark, channel=tenant, target=mark, details={mark: mark})
        queue.audit_end(entry, mark)
        found.append(of)
    return found


@pytest.fixture(scope="module")
def app(queue: Queue) -> Iterator[FastAPI]:
    app = create_app(queue, access=access_by_header, trace_url="https://traces.example/{trace_id}")
    yield app
    app.close()


def pages(app: FastAPI, of: Filled) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each page, with the names and ids of a tenant where it takes some."""
    known: dict[str, dict[str, Any]] = {
        "/tenant": {"name": of.tenant, "rate": of.mark[:40]},
        "/message": {"id": of.retried},
        "/messages": {"channel": of.tenant, "lane": of.lane},
        "/dead": {"channel": of.tenant, "by": "tenant"},
        "/dead/group": {"fingerprint": of.fingerprint, "channel": of.tenant},
        "/history": {"channel": of.tenant},
        "/worker": {"name": of.worker},
        "/batches": {"name": f"{of.mark}-batch"},
        "/batch": {"id": of.batch},
        "/audit": {"channel": of.tenant},
        "/tenants": {"prefix": of.tenant[:5]},
    }
    for path in sorted(readable_paths(app) - NO_PAGES):
        if not path.startswith("/api/"):
            yield path, known.pop(path, {})
    assert not known


HREF = re.compile(r"<a\s[^>]*href=[\"']?([^\"'\s>]*)")


def test_links_are_links(app: FastAPI, client_as: As, hostile: list[Filled]) -> None:
    """Each leads to a page, here or elsewhere, whatever is in it; none has a script as its address."""
    for of in hostile:
        for path, query in pages(app, of):
            answer = client_as("ann").get(path, params=query)
            assert answer.status_code == 200
            links = HREF.findall(answer.text)
            assert links
            assert all(link.startswith(("/", "#", "?", "http://", "https://")) for link in links), path
            assert OWNED not in answer.text, "a quote is not escaped"


@pytest.mark.debian("chromium")
@pytest.mark.slow
@pytest.mark.parametrize(
    "which",
    [0, pytest.param(1, marks=pytest.mark.long)],
    ids=["markup", "addresses and odd characters"],
)
def test_nothing_runs_in_a_browser(app: FastAPI, hostile: list[Filled], which: int) -> None:
    with served(app) as address, started_browser() as browser, opened_tab(browser, address) as tab:
        page = tab.page
        for of in hostile[which : which + 1]:
            for path, query in pages(app, of):
                url = f"{address}{path}?{urlencode(query)}"
                answer = page.goto(url)
                assert answer is not None
                assert answer.status == 200, (url, answer.text()[:500])
                assert "x-1" not in answer.headers
                assert page.title().endswith("LonnyMQ"), url
                assert page.evaluate("typeof window.owned") == "undefined", url
                links = page.locator("a").evaluate_all("all => all.map(one => one.protocol)")
                assert set(links) <= {"http:", "https:"}
                expect(page.locator("footer")).to_be_visible()
            tab.open("/messages")
            page.locator("a.tenant", has_text=printable(of.tenant)).first.click()
            expect(page.locator("h1")).to_contain_text(printable(of.tenant))
            page.get_by_role("link", name="Its dead letters").click()
            expect(page.locator("h1")).to_contain_text(printable(of.tenant))
            page.get_by_role("link", name=str(of.dead), exact=True).first.click()
            expect(page.locator("h1")).to_contain_text(f"Message {of.dead}")
            page.get_by_role("button", name="Retry", exact=True).click()
            page.locator("#toast", has_text="It is due again.").wait_for()
            assert page.evaluate("typeof window.owned") == "undefined"
        assert not tab.faults


def test_names_do_not_become_headers(client_as: As, hostile: list[Filled]) -> None:
    for of in hostile:
        for name in (of.tenant, "a\r\nX-Owned: 1", "\u2028X-Owned: 1", "é" * 127):
            for path in ("/tenant", "/api/v1/channel"):
                answer = client_as("ann").get(path, params={"name": name})
                assert answer.status_code == 200
                assert "x-owned" not in answer.headers
            for path in ("/messages", "/dead", "/history", "/audit"):
                answer = client_as("ann").get(path, params={"channel": name})
                assert answer.status_code == 200
                assert "x-owned" not in answer.headers


HUGE = "9" * 5_000
TEXTS = (
    *(
        "",
        " ",
        "\0",
        "a\0b",
        "\ufffe",
        "\U0010ffff",
        "é" * 128,
        "x" * 256,
        "x" * 10_000,
        "'; DROP TABLE x --",
    ),
    *(
        "0",
        "-1",
        "1.0",
        "1e3",
        "inf",
        "nan",
        "\uff11",
        "1_0",
        "0x1",
        str(9 * 10**18),
        str(2**63),
        str(2**64),
        HUGE,
    ),
    *(
        "null",
        "true",
        "[]",
        "{}",
        '["", 0, 0, 1]',
        '["a", -32768, -9, 1]',
        "0" * 12,
        "inherit",
        "0/0s",
        "1/0s",
    ),
)
VALID = {"name": "x", "id": "1", "fingerprint": "0" * 12}
"""Of parameters that some routes need."""
SERVER_ERROR = 500
BODIES = (
    *(b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff", b"NaN", b"[" * 100_000, b'{"a":' * 50_000),
    b'{"name":"\\ud800","worker":"\\ud800","wanted":"pause","channel":"\\ud800","paused":true}',
    b'{"name":"a\\u0000b","worker":"a\\u0000b","wanted":"pause","channel":"a\\u0000b","weight":1}',
    b'{"name":"x","name":"y","weight":1e400,"ids":[9223372036854775808],"everything":true}',
    b'{"name":"x","weight":NaN,"max_concurrency":1e3,"rate":-1,"ids":[1.5]}',
    b'{"name":"x","rate":Infinity,"burst":2147483648,"ids":[-1],"channel":"x"}',
    b'{"ids":[' + HUGE.encode() + b'],"name":"x","max_size":' + HUGE.encode() + b"}",
    b'{"name":["x"],"worker":{},"wanted":[],"paused":"yes","everything":1,"fingerprint":"0"}',
)


def test_odd_values(app: FastAPI, client_as: As) -> None:
    """Whatever is sent is answered or refused, and never fails."""
    wrong = set()
    for person in ("ann", "acme"):
        client = client_as(person)
        for context in iter_route_contexts(app.routes):
            route = context.original_route
            path, methods = str(context.path), context.methods or set()
            if not isinstance(route, APIRoute) or path in NO_PAGES:
                continue
            inside = [one.alias for one in route.dependant.path_params]
            # Those of the interface are tried by tests/web/test_schemathesis.py, too.
            for text in () if path.startswith("/api/") or person == "acme" else TEXTS:
                filled = path.format(**dict.fromkeys(inside, quote(text, safe="") or "%20"))
                for name in [one.alias for one in route.dependant.query_params] or inside[:1]:
                    answer = client.request(min(methods), filled, params=VALID | {name: text})
                    if answer.status_code >= SERVER_ERROR:
                        wrong.add((filled[:50], name, text[:50]))
            for body in BODIES:
                for method in methods & CHANGING:
                    filled = path.format(**dict.fromkeys(inside, 1))
                    answer = client.request(
                        method, filled, content=body, headers={"content-type": "application/json"}
                    )
                    if answer.status_code >= SERVER_ERROR:
                        wrong.add((filled, method, str(body[:50])))
    assert not wrong


async def asked(app: FastAPI, method: str, path: str, raw_path: str, root_path: str = "") -> int:
    """The status for a person without access, from the application itself: clients tidy up paths."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": raw_path.encode(),
        "root_path": root_path,
        "query_string": b"name=acme&id=1&fingerprint=000000000000",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    return int(sent[0]["status"])


async def tried(app: FastAPI) -> set[tuple[str, tuple[str, str, str], int]]:
    """The method, the path and the status of what was answered."""
    found = set()
    for route, methods in routes_of(app):
        path = route.format(message_id=1, batch_id=1) + ("" if methods else "/icon.svg")
        if path == OPEN:
            continue
        tricks = [
            (path, path, ""),
            (f"/{path}", f"/{path}", ""),
            (f"{OPEN}/..{path}", f"{OPEN}/%2e%2e{path}", ""),
            (f"{OPEN}{path}", f"{OPEN}{path}", ""),
            (f"{OPEN}{path}", f"{OPEN}{path}", OPEN),
            (path, f"{OPEN}{path}", ""),
            (path, OPEN, ""),
            (path, f"{path}{OPEN}", ""),
            (f"{path};{OPEN}", f"{path};{OPEN}", ""),
            (f"{path}?{OPEN}", f"{path}%3f{OPEN}", ""),
            (f"{path}\0{OPEN}", f"{path}%00{OPEN}", ""),
            (path, path, OPEN),
            (path, path, "/"),
            (f"/q{path}", f"/q{path}", "/q"),
        ]
        for method in sorted(methods | {"GET", "HEAD", "OPTIONS", "TRACE", "POST"}):
            found |= {
                (method, trick, status)
                for trick in tricks
                if (status := await asked(app, method, *trick)) not in {401, 403}
            }
    return found


def test_no_way_around_the_gate(app: FastAPI, client_as: As) -> None:
    """Whatever the path is made to look like, only the open one is answered."""
    assert not asyncio.run(tried(app))
    for method, status in (("GET", 200), ("HEAD", 200), ("POST", 405), ("TRACE", 405), ("OPTIONS", 405)):
        assert asyncio.run(asked(app, method, OPEN, OPEN)) == status
    refused = client_as("ann").post("/tenants", headers={"origin": "http://localhost"})
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
