"""The list of messages, one message, and what can be done with it."""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from lonnymq import Delivery, Queue
from tests.web.conftest import As

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def enqueued(queue: Queue, channel: str, payload: Any = None, **options: Any) -> int:
    return queue.enqueue(payload, channel=channel, **options).id or 0


def taken(queue: Queue, lane: str) -> Delivery:
    """Each test uses a lane of its own."""
    (message,) = queue.dequeue(consumer="c1", lanes=[lane])
    return message


def act(client: TestClient, message_id: int, action: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = client.post(f"/api/v1/messages/{message_id}/{action}", json=body)
    return answer.status_code, answer.json()


def test_lists_page_by_page(queue: Queue, ann: TestClient) -> None:
    ids = [enqueued(queue, "pages", n, lane="list") for n in range(3)]
    later = enqueued(queue, "pages", "later", lane="other", delay=60)
    first = ann.get("/api/v1/messages", params={"channel": "pages", "limit": 2}).json()
    rest = ann.get("/api/v1/messages", params={"channel": "pages", "after": first["next"]}).json()
    assert [one["id"] for one in first["messages"] + rest["messages"]] == [*ids, later]
    assert rest["next"] is None
    assert "headers" not in first["messages"][0]
    page = ann.get("/messages", params={"channel": "pages", "status": "scheduled"}).text
    assert f"/message?id={later}" in page
    assert f"/message?id={ids[0]}" not in page


@pytest.mark.parametrize("status", ["waiting", "due"])
def test_a_lane_is_searched_in_bounded_steps(queue: Queue, ann: TestClient, status: str) -> None:
    """No page is longer than asked for, and none of the messages is left out or listed twice."""
    channel = f"lanes-{status}"
    wanted = [enqueued(queue, channel, n, lane=("rare", "usual")[n % 2]) for n in range(8)][::2]
    found: list[int] = []
    after = None
    for _ in range(4):
        params = {"status": status, "lane": "rare", "limit": "3"} | ({"after": after} if after else {})
        page = ann.get("/api/v1/messages", params=params).json()
        assert len(page["messages"]) <= 3
        found += [one["id"] for one in page["messages"] if one["channel"] == channel]
        if (after := page["next"]) is None:
            break
    assert found == wanted
    named = ann.get("/api/v1/messages", params={"status": status, "lane": "rare", "channel": channel}).json()
    assert [one["id"] for one in named["messages"]] == wanted


def test_everything_about_a_message(queue: Queue, client_as: As) -> None:
    """Without the right to see payloads, a person sees the rest."""
    headers = {"task": "bill", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Api-Key": "s3cret"}
    payload = {"name": "<b>", "card": [{"token": "s3cret"}]}
    with queue.batch("details") as batch:
        batch.enqueue(1, channel="details")
        message_id = batch.enqueue(payload, channel="details", headers=headers, dedupe_key="k").id or 0
    queue.dispatch()
    found = client_as("reader").get(f"/api/v1/messages/{message_id}").json()
    assert (found["status"], found["place"], found["task"]) == ("due", 1, "bill")
    assert (found["dedupe_key"], found["batch_id"]) == ("k", batch.id)
    assert "1 message of its tenant and lane is ahead of it." in found["place_text"]
    assert '"token": "[hidden]"' in found["payload"]["text"]
    assert '"X-Api-Key": "[hidden]"' in found["headers"]
    assert found["trace_url"] == f"https://traces.example/trace/{TRACE}"
    page = client_as("reader").get("/message", params={"id": message_id}).text
    assert "&lt;b&gt;" in page
    assert "s3cret" not in page
    assert "/cancel" not in page  # it is not this person's to change
    clerk = client_as("clerk").get(f"/api/v1/messages/{message_id}").json()
    assert (clerk["payload"], clerk["headers"], clerk["state"]) == (None, None, None)
    assert "&lt;b&gt;" not in client_as("clerk").get("/message", params={"id": message_id}).text


@pytest.mark.parametrize(
    ("content", "headers", "form", "text"),
    [
        (b'{"password": "x"}', None, "json", '"[hidden]"'),
        (b"\x81\xa5token\xa1x", {"content-type": "application/msgpack"}, "json", '"token": "[hidden]"'),
        (b"plain", {"content-type": "text/plain"}, "text", "plain"),
        (b"12", None, "text", "12"),
        (
            b'{"password": "x y", "n',
            {"content-type": "application/json"},
            "text",
            '{"password": [hidden], "n',
        ),
        (b'"\\ud800"', {"content-type": "application/json"}, "json", "\\ud800"),
        (bytes(range(256)) * 3, None, "binary", "0010  10 11 12"),
        (b"[" * 50_000, {"content-type": "application/json"}, "hidden", "too deeply nested"),
        (b"[" * 600 + b"]" * 600, None, "hidden", "too deeply nested"),
        (b"x" * 1_000_001, None, "hidden", "too large"),
        (b"", {"content-type": 7}, "text", ""),
    ],
    ids=[
        *(
            "untyped",
            "msgpack",
            "text",
            "number",
            "broken",
            "surrogate",
            "binary",
            "unclosed",
            "deep",
            "large",
        ),
        "empty",
    ],
)
def test_content_of_any_kind(
    queue: Queue, ann: TestClient, content: bytes, headers: dict[str, Any] | None, form: str, text: str
) -> None:
    message_id = enqueued(queue, "kinds", content, headers=headers)
    shown = ann.get(f"/api/v1/messages/{message_id}").json()["payload"]
    assert (shown["form"], text in shown["text"]) == (form, True)
    assert (shown["content_bytes"], len(shown["text"]) <= 20_000) == (len(content), True)
    assert ann.get("/message", params={"id": message_id}).status_code == 200


def test_the_life_of_a_message(queue: Queue, ann: TestClient) -> None:
    def text() -> str:
        found = ann.get(f"/api/v1/messages/{message_id}").json()
        page = ann.get("/message", params={"id": message_id})
        assert page.status_code == 200
        return "\n".join([found["text"], *(f"{one['text']} {one['error']}" for one in found["events"])])

    message_id = enqueued(queue, "life", {"n": 1}, lane="life", max_attempts=2)
    queue.retry(taken(queue, "life"), error="first", state=b'{"step": 2}')
    assert "It has failed 1 time so far." in text()
    assert "c1 took it for attempt 1, and failed. first" in text()
    assert "step" in ann.get("/message", params={"id": message_id}).text
    assert act(ann, message_id, "run-now", first=True)[0] == 200
    message = taken(queue, "life")
    assert "c1 has it (attempt 2 of 2). Its lease ends in " in text()
    queue.retry(message, error="second")
    assert "It is a dead letter: it failed after 2 attempts." in text()
    assert act(ann, message_id, "retry") == (
        200,
        {"id": message_id, "result": "retried", "text": "It is due again."},
    )
    assert "It became a dead letter after 2 attempts, and was retried later. second" in text()
    queue.complete(taken(queue, "life"))
    assert "It was completed now, after 1 attempt." in text()
    assert "It became a dead letter after 2 attempts. second" in text()


def test_actions(queue: Queue, ann: TestClient) -> None:
    later = enqueued(
        queue, "acts", {"n": 1}, lane="acts", delay=60, headers={"h": 1}, priority=3, dedupe_key="k"
    )
    assert act(ann, later, "run-now")[1]["result"] == "rescheduled"
    assert act(ann, later, "run-now")[0] == 409  # due already
    assert act(ann, later, "retry")[0] == 409  # not dead
    status, copied = act(ann, later, "copy")
    copy = queue.get(copied["id"])
    assert copy is not None
    assert (status, copy.payload, copy.headers["h"], copy.priority, copy.dedupe_key) == (
        200,
        {"n": 1},
        1,
        3,
        None,
    )
    assert act(ann, copied["id"], "cancel")[1]["result"] == "cancelled"
    message = taken(queue, "acts")
    assert message.id == later
    assert act(ann, later, "run-now") == (
        409,
        {
            "error": "Conflict",
            "message": f"a consumer has message {later}",
            "hint": "wait for it, or cancel the message",
        },
    )
    assert act(ann, later, "cancel")[1]["result"] == "marked"
    queue.complete(message)
    assert act(ann, later, "cancel")[0] == 409  # it is in the history
    assert act(ann, later, "copy")[1]["result"] == "created"
    assert act(ann, 2**62, "cancel")[0] == 404
    rows = [(row.action, row.channel, row.target) for row in queue.audit(limit=3)]
    assert rows[0] == ("message.copy", "acts", str(later))


def test_retry_of_a_letter_whose_key_is_taken(queue: Queue, ann: TestClient) -> None:
    dead = enqueued(queue, "key", 1, lane="key", dedupe_key="k")
    queue.fail(taken(queue, "key"), error="no")
    enqueued(queue, "key", 2, lane="key", dedupe_key="k")
    status, problem = act(ann, dead, "retry")
    assert (status, problem["message"]) == (409, f"another message has the dedupe key of message {dead}")
    assert act(ann, dead, "cancel")[1]["message"] == f"message {dead} is a dead letter"


@pytest.mark.parametrize("action", ["run-now", "cancel", "retry", "copy"])
def test_actions_of_others(queue: Queue, client_as: As, action: str) -> None:
    """To a tenant, a message of another one looks like one that does not exist, waiting or finished."""
    other = enqueued(queue, "other", lane=f"other-{action}")
    over = enqueued(queue, "other", lane=f"over-{action}")
    queue.complete(taken(queue, f"over-{action}"))
    acme = client_as("acme")
    never = 2**62
    for message_id in (other, over):
        for path in ("/api/v1/messages/{}", "/message?id={}"):
            found, unknown = acme.get(path.format(message_id)), acme.get(path.format(never))
            assert (found.status_code, unknown.status_code) == (404, 404)
            told = re.sub(rf"(message |id=){message_id}\b", rf"\g<1>{never}", found.text)
            assert told == unknown.text
        assert act(acme, message_id, action)[0] == 404
    assert queue.get(other) is not None
    assert act(client_as("reader"), other, action)[0] == 403
    assert client_as("nobody").post(f"/api/v1/messages/{other}/{action}").status_code == 403
    crossed = client_as("ann").post(
        f"/api/v1/messages/{other}/{action}", headers={"origin": "https://evil.example"}
    )
    assert crossed.status_code == 403


def test_a_tenant_sees_its_own(queue: Queue, client_as: As) -> None:
    own = enqueued(queue, "acme", {"n": 1})
    enqueued(queue, "rival", {"n": 2})
    acme = client_as("acme")
    assert {one["channel"] for one in acme.get("/api/v1/messages").json()["messages"]} == {"acme"}
    assert "rival" not in acme.get("/messages").text
    assert acme.get("/api/v1/messages", params={"channel": "rival"}).status_code == 403
    assert acme.get(f"/api/v1/messages/{own}").json()["channel"] == "acme"
    assert act(acme, own, "cancel")[0] == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/messages?channel=%00", 422),
        ("/api/v1/messages?channel=%ff", 200),
        ("/api/v1/messages?after=x", 422),
        ("/api/v1/messages?after=%5B%22a%22,1,99999999999999999999,1%5D", 422),
        ("/api/v1/messages?limit=0", 422),
        ("/api/v1/messages?status=dead", 422),
        ("/api/v1/messages/0", 422),
        ("/api/v1/messages/9000000000000000001", 422),
        ("/api/v1/messages/9000000000000000000", 404),
        ("/message?id=x", 422),
        ("/message", 422),
        ("/messages?channel=%00", 400),
    ],
)
def test_wrong_input(ann: TestClient, path: str, status: int) -> None:
    assert ann.get(path).status_code == status
