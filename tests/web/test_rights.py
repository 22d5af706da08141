"""Every request that changes something: refused without its right, from elsewhere and for another tenant, and
written down when it is done.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.web import Access, create_app
from lonnymq.web.access import Right
from tests.web.conftest import PEOPLE, PERSON
from tests.web.filled import Filled, contents, fill
from tests.web.routes import CHANGING, documented_changes, routes_of

RIGHTS = "x-rights"
"""A header with the rights of a person who is not in PEOPLE."""


@dataclass(frozen=True)
class Change:
    """A request that works. `outcome` is how its audit row begins."""

    route: str
    right: Right
    action: str
    body: dict[str, Any] = field(default_factory=dict)
    path: dict[str, int] = field(default_factory=dict)
    outcome: str = "done"

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def template(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def address(self) -> str:
        return "/api/v1" + self.template.format(**self.path)

    def send(self, client: TestClient, **headers: str) -> Any:
        return client.request(self.method, self.address, json=self.body, headers=headers)


def changes(of: Filled) -> list[Change]:
    """In an order in which each of them works after the one before."""
    message = "/messages/{message_id}"

    def schedule(wanted: str, outcome: str) -> Change:
        body = {"name": of.schedule, "wanted": wanted}
        return Change("post /schedules", Right.SCHEDULES, f"schedule.{wanted}", body=body, outcome=outcome)

    def worker(wanted: str) -> Change:
        body = {"worker": of.worker, "wanted": wanted}
        return Change("post /workers", Right.WORKERS, f"worker.{wanted}", body=body, outcome="1 worker asked")

    def policy(action: str, **body: Any) -> Change:
        return Change("patch /channel", Right.CHANNELS, action, body={"name": of.tenant, **body})

    def on_message(what: str, action: str, number: int, outcome: str = "done", **body: Any) -> Change:
        path = {"message_id": number}
        return Change(f"post {message}/{what}", Right.MESSAGES, action, body, path, outcome)

    def dead(what: str, outcome: str, **body: Any) -> Change:
        return Change(f"post /dead/{what}", Right.DEAD_LETTERS, f"dead.{what}", body, outcome=outcome)

    return [
        policy("channel.set", weight=2, max_concurrency=100),
        policy("channel.pause", paused=True),
        policy("channel.resume", paused=False),
        Change("patch /queue", Right.QUEUE, "queue.pause", {"paused": True}),
        Change("patch /queue", Right.QUEUE, "queue.resume", {"paused": False}),
        on_message("copy", "message.copy", of.due, "created "),
        on_message("run-now", "message.run_now", of.scheduled),
        on_message("run-now", "message.first", of.scheduled, first=True),
        on_message("cancel", "message.cancel", of.scheduled, "cancelled"),
        on_message("cancel", "message.cancel", of.leased, "marked"),
        on_message("retry", "message.retry", of.dead),
        dead("retry", "1 dead letter was retried", ids=[of.other_dead], channel=of.tenant),
        dead("retry", "0 dead letters were retried", fingerprint=of.fingerprint),
        dead("retry", "2 dead letters were retried", everything=True),
        dead("discard", "0 dead letters were discarded", channel=of.tenant),
        worker("pause"),
        worker("resume"),
        worker("drain"),
        schedule("pause", "paused"),
        schedule("resume", "resumed"),
        schedule("run", "created: message "),
        schedule("delete", "deleted"),
        Change(
            "post /batches/{batch_id}/cancel",
            Right.BATCHES,
            "batch.cancel",
            path={"batch_id": of.batch},
            outcome="1 message cancelled",
        ),
        Change("post /followers/forget", Right.QUEUE, "follower.forget", {"name": of.follower}),
    ]


def rule(request: Request) -> Access | None:
    if RIGHTS in request.headers:
        return Access("some", frozenset(map(Right, request.headers[RIGHTS].split(","))))
    return PEOPLE.get(request.headers.get(PERSON, ""))


@pytest.fixture(scope="module")
def app(queue: Queue) -> Iterator[FastAPI]:
    app = create_app(queue, access=rule)
    yield app
    app.close()


@pytest.fixture(scope="module")
def anyone(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://localhost")


@pytest.fixture(scope="module")
def acme(queue: Queue) -> Filled:
    return fill(queue, "acme", "own")


@pytest.fixture(scope="module")
def umbrella(queue: Queue) -> Filled:
    return fill(queue, "umbrella", "other")


def test_no_change_is_forgotten(app: FastAPI, acme: Filled) -> None:
    """The table is complete, and nothing else than the documented interface changes anything."""
    documented = documented_changes(app)
    assert {f"{change.method} /api/v1{change.template}" for change in changes(acme)} == documented
    routes = {f"{method.lower()} {path}" for path, methods in routes_of(app) for method in methods & CHANGING}
    assert routes == documented


def test_what_is_refused(anyone: TestClient, web_dsn: str, acme: Filled, umbrella: Filled) -> None:
    """Nothing has changed after all of these, and none of them is in the audit."""
    before = contents(web_dsn)
    faults: list[Any] = []

    def expect(change: Change, status: set[int], error: str | None = None, **headers: str) -> None:
        answer = change.send(anyone, **headers)
        if answer.status_code not in status or (error and answer.json()["error"] != error):
            faults.append((change, headers, answer.status_code, answer.text))

    for change in changes(acme):
        expect(change, {403}, "AccessDenied")
        expect(change, {403}, "AccessDenied", **{PERSON: "nobody"})
        expect(change, {403}, "AccessDenied", **{PERSON: "reader"})
        for right in Right:
            if right is not change.right:
                expect(change, {403}, "AccessDenied", **{RIGHTS: f"{Right.READ},{right}"})
        others = ",".join(right for right in Right if right is not change.right)
        expect(change, {403}, "AccessDenied", **{RIGHTS: others})
        for elsewhere in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
            expect(change, {403}, "CrossOrigin", **{PERSON: "ann"}, **elsewhere)
    for change in changes(umbrella):
        expect(change, {403, 404}, **{PERSON: "acme"})
    for body in ({"everything": True}, {"fingerprint": umbrella.fingerprint}, {"ids": [umbrella.dead]}):
        for what in ("retry", "discard"):
            expect(
                Change(f"post /dead/{what}", Right.DEAD_LETTERS, "", {**body, "dry_run": True}),
                {403},
                **{PERSON: "acme"},
            )
    assert not faults
    assert contents(web_dsn) == before


def test_another_tenants_letters_among_ones_own(
    anyone: TestClient, web_dsn: str, queue: Queue, umbrella: Filled
) -> None:
    """They are as if they did not exist."""
    before = contents(web_dsn)
    for what in ("retry", "discard"):
        for body in ({"ids": umbrella.ids()}, {"fingerprint": "0" * 12}):
            change = Change(f"post /dead/{what}", Right.DEAD_LETTERS, "", {**body, "channel": "acme"})
            answer = change.send(anyone, **{PERSON: "acme"}).json()
            assert (answer["changed"], answer["refused"]) == (0, 0)
            assert queue.audit(limit=1)[0].who == "acme"
    assert contents(web_dsn) | {"audit": ""} == before | {"audit": ""}


@pytest.mark.usefixtures("umbrella")
def test_what_ann_may_do(anyone: TestClient, queue: Queue, acme: Filled) -> None:
    """Each request works, and leaves one row. What failed is written down as well."""
    for change in changes(acme):
        newest = queue.audit(limit=1)
        answer = change.send(anyone, **{PERSON: "ann"})
        assert answer.status_code == 200, (change, answer.text)
        entry, *older = queue.audit(limit=2)
        assert older == newest[: len(older)], change
        assert (entry.who, entry.action) == ("ann", change.action), change
        assert (entry.outcome or "").startswith(change.outcome), (change, entry)
        assert entry.ended_at is not None
        assert entry.channel in {None, change.body.get("channel", acme.tenant)}, (change, entry)
    again = [change for change in changes(acme) if change.action in {"schedule.delete", "follower.forget"}]
    for change in again:
        assert change.send(anyone, **{PERSON: "ann"}).status_code == 404
        (entry,) = queue.audit(limit=1)
        assert (entry.who, entry.action) == ("ann", change.action)
        assert (entry.outcome or "").startswith("failed: there is no ")
