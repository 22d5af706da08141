"""Every page and every read, with the names and ids of another tenant: nothing of it is told, and secrets are
hidden from everyone.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.web import create_app
from tests.database import AnyServer, DatabasesToDrop, copy_database, unique_name
from tests.web.conftest import PERSON, access_by_header
from tests.web.filled import Filled, fill
from tests.web.routes import readable_paths

ENDLESS = {"/live"}
SECRET = "hunter2"  # noqa: S105 - it is not one
TIMES = re.compile(
    r"\b\d{13}\b|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\b[\d.,]+ (?:ms|s|min|h|d)\b|(?<=_ms\W:)\d+"
)
"""They differ between two answers."""


@dataclass(frozen=True)
class Read:
    route: str
    path: str
    query: tuple[tuple[str, Any], ...]

    def send(self, client: TestClient, person: str) -> Any:
        return client.get(
            self.path, params=dict(self.query), headers={PERSON: person}, follow_redirects=False
        )

    def mentions(self, text: str) -> bool:
        return text in self.path or any(text in str(value) for _, value in self.query)


def values(of: Filled) -> dict[str, Sequence[Any]]:
    """What to try for each parameter that a route may have."""
    ids = of.ids()
    return {
        "channel": [of.tenant],
        "name": [of.tenant, of.worker, f"{of.mark}-batch"],
        "prefix": [of.tenant[:3], of.mark],
        "id": [*ids, of.batch],
        "message_id": ids,
        "batch_id": [of.batch],
        "fingerprint": [of.fingerprint],
        "after": [1, of.cursor],
        "limit": [1],
        "offset": [1],
        "lane": [of.lane],
        "status": ["due", "leased", "open", "closed"],
        "by": ["tenant"],
        "by_channel": [True],
        "sort": ["name", "served", "oldest"],
        "minutes": [5],
        "max_concurrency": [1],
        "rate": ["1/s"],
        "burst": [1],
        "weight": [2],
    }


def reads(app: FastAPI, of: Filled) -> Iterator[Read]:
    """Each route without parameters, with one at a time, and with the channel and one more."""
    known = values(of)
    for context in iter_route_contexts(app.routes):
        path = str(getattr(context.route, "path", "")) if context.path is None else str(context.path)
        if path not in readable_paths(app) - ENDLESS or "GET" not in (context.methods or ()):
            continue
        route = context.original_route
        dependant = route.dependant if isinstance(route, APIRoute) else None
        query = [one.alias for one in dependant.query_params] if dependant else []
        inside = [one.alias for one in dependant.path_params] if dependant else []
        for value in known[inside[0]] if inside else [None]:
            filled = path.format(**dict.fromkeys(inside, value))
            yield Read(path, filled, ())
            named = [(one, of.tenant) for one in ("channel", "name") if one in query][:1]
            for name in query:
                for given in known[name]:
                    yield Read(path, filled, ((name, given),))
                    if named and name not in {"channel", "name"}:
                        yield Read(path, filled, (*named, (name, given)))


@contextmanager
def dashboard(dsn: str) -> Iterator[tuple[Queue, FastAPI]]:
    """It polls once, so that answers do not depend on the number of polls."""
    with Queue(dsn, pool_size=2) as queue:
        app = create_app(queue, access=access_by_header)
        app.state.live.interval = 1_000.0
        yield queue, app
        app.close()


@dataclass(frozen=True)
class Both:
    """The same queue without and with another tenant's data, and the reads to try on both."""

    alone: TestClient
    together: TestClient
    reads: list[Read]
    own: list[Read]
    other: Filled


@pytest.fixture(scope="module")
def both(
    server: AnyServer, admin: psycopg.Connection, template: str, to_drop: DatabasesToDrop
) -> Iterator[Both]:
    first, second = unique_name("lonnymq_alone"), unique_name("lonnymq_together")
    copy_database(admin, first, template)
    with Queue(server.dsn(first), pool_size=1) as queue:
        queue.set(history=True, history_content=True)
        acme = fill(queue, "acme", "ownmark", SECRET)
        queue.set(max_concurrency=2)  # each tenant leases one
    copy_database(admin, second, first)
    with ExitStack() as stack:
        _, app = stack.enter_context(dashboard(server.dsn(first)))
        queue, other_app = stack.enter_context(dashboard(server.dsn(second)))
        umbrella = fill(queue, "umbrella", "othermark", SECRET)
        entry = queue.audit_begin(
            "bob", "channel.set", channel="umbrella", details={"note": "othermark", "token": SECRET}
        )
        queue.audit_end(entry, "othermark")
        alone, together = (TestClient(one, base_url="http://localhost") for one in (app, other_app))
        yield Both(alone, together, list(reads(other_app, umbrella)), list(reads(other_app, acme)), umbrella)
    to_drop.add(first)
    to_drop.add(second)


def test_all_reads_are_tried(both: Both) -> None:
    """And most of them do show the other tenant to those who may see it."""
    tried = {read.route for read in both.reads}
    assert tried == readable_paths(both.together.app) - ENDLESS  # type: ignore[arg-type]
    showing = {
        read.route
        for read in both.reads
        if (answer := read.send(both.together, "ann")).status_code == 200
        and any(text in answer.text and not read.mentions(text) for text in ("othermark", "umbrella"))
    }
    silent = {"/", "/health", "/healthz", "/metrics"} | {
        f"/api/v1/{topic}"
        for topic in ("openapi.json", "queue", "series", "health", "channel/what-if", "channel/series")
    }
    assert tried - showing <= silent, tried - showing


def test_another_tenant_is_as_if_it_did_not_exist(both: Both) -> None:
    differing: list[tuple[Any, ...]] = []
    for read in [*both.reads, *both.own]:
        alone, together = (read.send(one, "acme") for one in (both.alone, both.together))
        texts = [TIMES.sub("T", answer.text) for answer in (alone, together)]
        if alone.status_code != together.status_code or texts[0] != texts[1]:
            differing.append((read, alone.status_code, together.status_code, _difference(*texts)))
        if "othermark" in together.text and not read.mentions("othermark"):
            differing.append((read, together.status_code, "othermark"))
    assert not differing, differing[0]


def _difference(one: str, another: str) -> tuple[str, str]:
    at = next(
        (place for place, (a, b) in enumerate(zip(one, another, strict=False)) if a != b),
        min(len(one), len(another)),
    )
    return one[max(0, at - 100) : at + 100], another[max(0, at - 100) : at + 100]


def test_payloads_and_secrets(both: Both) -> None:
    """Without the right, no content. With it, no secret."""
    content = ("mark-payload", "mark-header", "mark-state")
    seen = set()
    for read in [*both.reads, *both.own]:
        for person in ("ann", "clerk", "acme"):
            text = read.send(both.together, person).text
            assert SECRET not in text, (read, person)
            found = {one for one in content if one in text}
            assert person != "clerk" or not found, read
            seen |= found
    assert seen == set(content)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (json.dumps({"a": [{"b": {"Api-Key": SECRET}}], "privateKey": [SECRET], "x.token": SECRET}), None),
        (json.dumps({"text": json.dumps({"in": json.dumps([{"password": SECRET}])})}), None),
        (json.dumps([f"https://shop.example/?a=1&token={SECRET}"]), None),
        (json.dumps({"log": f"Authorization: Bearer {SECRET}"}), None),
        (json.dumps(json.dumps({"password": SECRET})), "application/json"),
        (f"Cookie: a=1; session={SECRET}", "text/plain"),
        (f"curl -H 'Authorization: Basic {SECRET}' -d 'password={SECRET}'", "text/plain"),
        (f"\ufeff{{'password': '{SECRET}'}}", None),
        (json.dumps({"password": SECRET}).encode("utf-16"), None),
        (b"\x82\xa5token\xa7" + SECRET.encode() + b"\xa1a\xc1", "application/msgpack"),
        (b"\x81\xa5token\xa7" + SECRET.encode(), None),
        (b"\0password=" + SECRET.encode(), None),
    ],
)
def test_secrets_in_all_shapes(
    queue: Queue, client_as: Any, content: str | bytes, content_type: str | None
) -> None:
    """In the payload, in the headers, in the state, in the answer to a copy, and in the copy."""
    raw = content if isinstance(content, bytes) else content.encode()
    headers: dict[str, Any] = {"content-type": content_type} if content_type else {}
    if isinstance(content, str):
        headers["x-note"] = content
    queue.enqueue(raw, channel="shapes", headers=headers)
    (message,) = queue.dequeue()
    queue.retry(message, delay=60, state=raw)
    ann = client_as("ann")
    copied = ann.post(f"/api/v1/messages/{message.id}/copy")
    assert copied.status_code == 200
    copy = copied.json()["id"]
    for path in (
        f"/api/v1/messages/{message.id}",
        f"/message?id={message.id}",
        f"/api/v1/messages/{copy}",
        "/api/v1/audit",
        "/audit",
    ):
        answer = ann.get(path)
        assert answer.status_code == 200
        text = answer.text
        assert SECRET not in text
        assert SECRET.encode().hex(" ") not in text
    assert SECRET not in copied.text
    queue.cancel_many([message.id, copy])


def test_secrets_are_not_repeated_in_refusals(client_as: Any) -> None:
    ann = client_as("ann")
    for path in (f"/message?id={SECRET}", f"/{SECRET}", f"/api/v1/messages/{SECRET}"):
        assert SECRET not in ann.get(path).text.replace(f'"/{SECRET}"', "")
    for body in ({"name": {"password": SECRET}}, [SECRET], SECRET, {"name": "a", "weight": SECRET}):
        answer = ann.patch("/api/v1/channel", json=body)
        assert answer.status_code == 422
        assert SECRET not in answer.text
