"""The page of health, that of those who follow the history, and the audit."""

import psycopg
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.client.calls import ask
from lonnymq.commands import HistoryBounds, HistoryFollow
from lonnymq.version import __version__
from tests.web.conftest import As


def test_the_checks_and_their_numbers(ann: TestClient, queue: Queue, web_dsn: str) -> None:
    queue.enqueue(1, channel="slow")
    with psycopg.connect(web_dsn) as conn:
        conn.execute("SELECT pg_current_xact_id()")
        health = ann.get("/api/v1/health").json()
    found = {finding["check"]: finding for finding in health["findings"]}
    assert len(found) > 20
    assert found["schema"]["message"].startswith(f"LonnyMQ {__version__} in schema 'lonnymq'")
    assert found["fsync"]["status"] == health["status"] == "problem", "as the tests' server runs"
    assert found["fsync"]["advice"] == "set fsync = on"
    assert health["package"] == __version__
    numbers = health["measures"]
    assert numbers["transaction_ms"] >= 0
    assert numbers["snapshot_xids"] >= 0
    assert numbers["undispatched_ms"] >= 0
    queue.dispatch()
    assert ann.get("/api/v1/health").json()["measures"]["undispatched_ms"] is None
    page = ann.get("/health").text
    assert page.index("set fsync = on") < page.index("LonnyMQ", page.index("<tbody>")), "the worst first"


def test_who_follows_the_history(ann: TestClient, queue: Queue, client_as: As) -> None:
    assert ann.get("/api/v1/followers").json() == []
    assert "Nobody follows the history" in ann.get("/lake").text
    queue.perform(ask(HistoryFollow("lake <1>", queue.perform(ask(HistoryBounds())).snapshot)))
    for _ in range(3):
        queue.enqueue(1, channel="read")
    for message in queue.dequeue(10):
        queue.complete(message)
    [follower] = ann.get("/api/v1/followers").json()
    assert (follower["name"], follower["unread"]) == ("lake <1>", 4)
    assert "behind" in ann.get("/lake").text
    queue.perform(ask(HistoryFollow("lake <1>", queue.perform(ask(HistoryBounds())).snapshot)))
    assert "has read everything" in ann.get("/lake").text
    forget = {"name": "lake <1>"}
    assert client_as("reader").post("/api/v1/followers/forget", json=forget).status_code == 403
    assert ann.post("/api/v1/followers/forget", json=forget).json() == forget
    assert ann.post("/api/v1/followers/forget", json=forget).status_code == 404


def test_the_audit(ann: TestClient, queue: Queue, client_as: As) -> None:
    entry = queue.audit_begin("zoë", "channel.set", channel="shop/1", details={"rate": "5/s", "token": "x7y"})
    queue.audit_end(entry, "failed: no")
    queue.audit_begin("zoë", "message.cancel", target="<7>")
    newest, before = ann.get("/api/v1/audit", params={"limit": 2}).json()
    assert (newest["target"], newest["outcome"]) == ("<7>", None)
    assert before["details"] == {"rate": "5/s", "token": "[hidden]"}
    rest = ann.get("/api/v1/audit", params={"limit": 1, "after": newest["id"]}).json()
    assert rest == ann.get("/api/v1/audit", params={"channel": "shop/1"}).json() == [before]
    page = ann.get("/audit").text
    assert all(text in page for text in ("zoë", "&lt;7&gt;", "failed: no", "unknown", "5/s"))
    assert "x7y" not in page
    assert "&lt;7&gt;" not in ann.get("/audit", params={"channel": "shop/1"}).text
    assert "No changes are recorded for this tenant" in ann.get("/audit", params={"channel": "none"}).text


def test_without_rights(client_as: As) -> None:
    for path in (
        "/health",
        "/lake",
        "/audit",
        "/audit?channel=acme",
        "/api/v1/health",
        "/api/v1/followers",
        "/api/v1/audit",
    ):
        assert client_as("acme").get(path).status_code == 403, path
        assert client_as("reader").get(path).status_code == 200, path


def test_values_that_no_name_has(ann: TestClient) -> None:
    for path in (
        "/audit?channel=%00",
        "/worker?name=%00",
        "/worker?name=x&after=%ff",
        "/api/v1/workers/leases?name=%00",
        "/api/v1/workers/leases?name=x&after=y",
        "/api/v1/audit?channel=%00",
        "/api/v1/audit?after=0",
        f"/api/v1/audit?after={2**63}",
    ):
        answer = ann.get(path)
        assert answer.status_code in {400, 422}, (path, answer.status_code)
    for path in ("/api/v1/followers/forget", "/api/v1/schedules", "/api/v1/workers"):
        body = b'{"name": "\\u0000", "worker": "\\u0000", "wanted": "pause"}'
        for content in (body, body.replace(b"\\u0000", b"\\ud800"), b"[]", b"\xff", b"null", b""):
            sent = ann.post(path, content=content, headers={"content-type": "application/json"})
            assert sent.status_code in {400, 422}, (path, content, sent.status_code)
