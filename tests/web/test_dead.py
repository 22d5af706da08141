"""Dead letters: groups, lists, retrying and discarding many."""

import json
from itertools import pairwise
from typing import Any

import pytest
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.web.api import dead
from tests.web.conftest import As


def make_dead(queue: Queue, channel: str, error: str, number: int = 1, **options: Any) -> list[int]:
    """The ids of so many new dead letters. No other message is due."""
    for n in range(number):
        queue.enqueue({"n": n}, channel=channel, **options)
    messages = queue.dequeue(number, consumer="c1")
    for message in messages:
        queue.fail(message, error=error)
    return sorted(message.id for message in messages)


def change(client: TestClient, what: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = client.post(f"/api/v1/dead/{what}", json=body)
    return answer.status_code, answer.json()


@pytest.fixture
def only_these(queue: Queue) -> None:
    """No dead letter and no message of another test."""
    queue.dead.discard_all()
    queue.cancel_many([message.id for message in queue.messages(limit=10_000)])


def groups_of(client: TestClient, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/dead/groups", params=params).json()["groups"]
    return found


@pytest.mark.usefixtures("only_these")
def test_groups_and_their_letters(queue: Queue, ann: TestClient) -> None:
    make_dead(queue, "a/1", "ValueError: <7>", 2)
    make_dead(queue, "b", "ValueError: <8>")
    rare = make_dead(queue, "b", "KeyError: 'x'", headers={"task": "bill"})
    assert [(one["pattern"], one["messages"], one["channels"]) for one in groups_of(ann)] == [
        ("ValueError: <#>", 3, 2),
        ("KeyError: '...'", 1, 1),
    ]
    by_channel = groups_of(ann, by_channel=True)
    assert [(one["channel"], one["messages"]) for one in by_channel] == [("a/1", 2), ("b", 1), ("b", 1)]
    assert [one["messages"] for one in groups_of(ann, channel="b")] == [1, 1]
    page = ann.get("/dead").text
    assert "ValueError: &lt;#&gt;" in page
    fingerprint = by_channel[0]["fingerprint"]
    assert f"/dead/group?fingerprint={fingerprint}" in page
    group = ann.get("/dead/group", params={"fingerprint": fingerprint}).text
    assert "ValueError: &lt;7&gt;" in group
    assert "/tenant?name=a%2F1" in group
    assert f"/message?id={rare[0]}" not in group
    listed = ann.get("/api/v1/dead", params={"channel": "b", "limit": 1}).json()
    rest = ann.get("/api/v1/dead", params={"channel": "b", "after": listed["next"]}).json()
    assert [(one["id"], one["task"]) for one in rest["letters"]] == [(rare[0], "bill")]
    assert "headers" not in rest["letters"][0]


@pytest.mark.usefixtures("only_these")
def test_retry_a_group_over_time(queue: Queue, ann: TestClient) -> None:
    ids = make_dead(queue, "spread", "ValueError: 7", 4)
    make_dead(queue, "spread", "KeyError: 7")
    fingerprint = groups_of(ann)[0]["fingerprint"]
    status, told = change(ann, "retry", fingerprint=fingerprint, spread_ms=3_600_000, dry_run=True)
    assert (status, told["text"]) == (200, "4 dead letters would be retried.")
    assert len(queue.dead.list()) == 5
    status, done = change(ann, "retry", fingerprint=fingerprint, spread_ms=3_600_000)
    assert (status, done) == (
        200,
        {"changed": 4, "refused": 0, "next_after": None, "text": "4 dead letters were retried."},
    )
    back = [message for message in (queue.get(one) for one in ids) if message is not None]
    gaps = [later.dequeue_at - one.dequeue_at for one, later in pairwise(back)]
    assert gaps == [900_000] * 3
    (row,) = queue.audit(limit=1)
    assert (row.action, row.outcome) == ("dead.retry", "4 dead letters were retried.")
    assert row.details == {"fingerprint": fingerprint, "spread_ms": 3_600_000}


@pytest.mark.usefixtures("only_these")
def test_a_request_stops_after_some_time(
    queue: Queue, ann: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = make_dead(queue, "long", "no", 3)
    monkeypatch.setattr(dead, "PART", 2)
    monkeypatch.setattr(dead, "BUSY_S", -1.0)
    status, first = change(ann, "discard", channel="long")
    assert (status, first["changed"], first["next_after"]) == (200, 2, ids[1])
    assert first["text"] == "2 dead letters were discarded. There are more: press again."
    assert change(ann, "discard", channel="long", after=first["next_after"])[1]["changed"] == 1
    assert ann.get("/dead").text.count("No dead letters.") == 1


@pytest.mark.usefixtures("only_these")
def test_ids(queue: Queue, ann: TestClient) -> None:
    """Those that are not there, or not in the channel, are left out."""
    first, second, third = make_dead(queue, "ids", "no", 3)
    (other,) = make_dead(queue, "elsewhere", "no")
    wanted = [first, first, other, 2**62]
    assert change(ann, "retry", ids=wanted, channel="ids", dry_run=True)[1]["changed"] == 1
    assert change(ann, "retry", ids=wanted, channel="ids")[1]["changed"] == 1
    assert (
        change(ann, "discard", ids=[second], dry_run=True)[1]["text"] == "1 dead letter would be discarded."
    )
    assert change(ann, "discard", ids=[second])[1]["text"] == "1 dead letter was discarded."
    assert [letter.id for letter in queue.dead.list()] == [third, other]
    assert change(ann, "retry", everything=True)[1]["changed"] == 2


@pytest.mark.parametrize("what", ["retry", "discard"])
@pytest.mark.usefixtures("only_these")
def test_a_tenant_changes_its_own(queue: Queue, client_as: As, what: str) -> None:
    (own,) = make_dead(queue, "acme", "ValueError: 7")
    (other,) = make_dead(queue, "rival", "ValueError: 8")
    acme = client_as("acme")
    (group,) = groups_of(acme)
    assert (group["messages"], group["channels"]) == (1, 1)
    for path in ("/dead", f"/dead/group?fingerprint={group['fingerprint']}", "/api/v1/dead"):
        assert "rival" not in acme.get(path).text
    assert acme.get("/api/v1/dead?channel=rival").status_code == 403
    assert acme.get("/api/v1/dead/groups?channel=rival").status_code == 403
    for dry_run in (True, False):
        for body in ({"everything": True}, {"ids": [own]}, {"channel": "rival"}, {"fingerprint": "0" * 12}):
            assert change(acme, what, **body, dry_run=dry_run)[0] == 403
            assert change(client_as("reader"), what, **body, dry_run=dry_run)[0] == 403
        assert change(acme, what, ids=[other], channel="acme", dry_run=dry_run)[1]["changed"] == 0
    assert change(acme, what, fingerprint=group["fingerprint"], channel="acme")[1]["changed"] == 1
    assert [letter.id for letter in queue.dead.list()] == [other]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"ids": []}, 422),
        ({"ids": [0]}, 422),
        ({"ids": [1], "fingerprint": "0" * 12}, 422),
        ({"everything": True, "channel": "a"}, 422),
        ({"everything": False}, 422),
        ({"fingerprint": "x"}, 422),
        ({"channel": "\0"}, 400),
        ({"channel": "\ud800"}, 422),
        ({"everything": True, "spread_ms": -1}, 422),
        ({"everything": True, "spread_ms": True}, 422),
        ({"ids": [7.0], "dry_run": True}, 200),
        ({"everything": True, "after": 2**63}, 422),
        ([], 422),
    ],
)
def test_wrong_input(ann: TestClient, body: Any, status: int) -> None:
    sent = json.dumps(body)  # httpx does not send a lone surrogate
    headers = {"content-type": "application/json"}
    assert ann.post("/api/v1/dead/retry", content=sent, headers=headers).status_code == status
    assert ann.get("/dead/group?fingerprint=x").status_code == 422
