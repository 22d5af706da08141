"""Batches and the history."""

from starlette.testclient import TestClient

from lonnymq import Queue
from tests.web.conftest import As


def test_a_batch_until_it_is_cancelled(queue: Queue, ann: TestClient) -> None:
    with queue.batch("import <1>") as batch:
        batch.enqueue_many(range(4), channel="import")
    (message, failing) = queue.dequeue(2)
    queue.complete(message)
    queue.fail(failing, error="no")
    found = ann.get(f"/api/v1/batches/{batch.id}").json()
    assert (found["status"], found["total"], found["waiting"]) == ("closed", 4, 2)
    assert (found["completed"], found["dead"], found["failed_id"]) == (1, 1, failing.id)
    listed = ann.get("/api/v1/batches", params={"status": "closed", "limit": 1}).json()
    assert (listed["batches"], listed["next"]) == ([found], batch.id)
    assert ann.get("/api/v1/batches", params={"after": batch.id}).json() == {"batches": [], "next": None}
    assert "import &lt;1&gt;" in ann.get("/batches").text
    page = ann.get("/batch", params={"id": batch.id}).text
    assert f"/message?id={failing.id}" in page
    path = f"/api/v1/batches/{batch.id}/cancel"
    assert ann.post(path).json() == {
        "id": batch.id,
        "messages": 2,
        "has_more": False,
        "text": "2 messages cancelled.",
    }
    assert path not in ann.get("/batch", params={"id": batch.id}).text
    (row,) = queue.audit(limit=1)
    assert (row.action, row.target) == ("batch.cancel", str(batch.id))


def test_batches_that_cannot_be_cancelled(queue: Queue, ann: TestClient) -> None:
    with queue.batch("empty") as batch:
        pass
    assert ann.post(f"/api/v1/batches/{batch.id}/cancel").status_code == 409
    assert ann.post(f"/api/v1/batches/{2**62}/cancel").status_code == 404
    assert ann.get(f"/batch?id={2**62}").status_code == 404
    assert "No such batches" in ann.get("/batches?name=none").text


def test_batches_are_for_those_who_see_the_whole_queue(queue: Queue, client_as: As) -> None:
    batch_id = queue.open_batch("of somebody")
    message_id = queue.enqueue(1, channel="acme", batch_id=batch_id).id
    acme = client_as("acme")
    for path in ("/batches", f"/batch?id={batch_id}", "/api/v1/batches", f"/api/v1/batches/{batch_id}"):
        answer = acme.get(path)
        assert answer.status_code == 403
        assert "of somebody" not in answer.text
    assert acme.post(f"/api/v1/batches/{batch_id}/cancel").status_code == 403
    assert client_as("reader").post(f"/api/v1/batches/{batch_id}/cancel").status_code == 403
    assert acme.get(f"/api/v1/messages/{message_id}").json()["batch_id"] is None


def test_history(queue: Queue, client_as: As) -> None:
    """A tenant sees its own, without content."""
    for channel in ("acme", "rival"):
        queue.enqueue(
            {"n": "content of " + channel}, channel=channel, headers={"task": "bill"}, lane="history"
        )
    for message in queue.dequeue(10, consumer="c1", lanes=["history"]):
        queue.complete(message)
    acme = client_as("acme")
    found = acme.get("/api/v1/history").json()
    assert [(one["channel"], one["task"], one["outcome"]) for one in found["messages"]] == [
        ("acme", "bill", "completed")
    ]
    (summary,) = acme.get("/api/v1/history/summary").json()
    assert (summary["task"], summary["messages"]) == ("bill", 1)
    (summary,) = acme.get("/api/v1/history/summary", params={"minutes": 5}).json()
    assert summary["messages"] == 1
    page = acme.get("/history").text
    assert "rival" not in page
    assert "content of" not in page
    assert "bill" in page
    for path in ("/api/v1/history", "/api/v1/history/summary", "/history"):
        assert acme.get(path, params={"channel": "rival"}).status_code == 403
    reader = client_as("reader")
    assert {one["channel"] for one in reader.get("/api/v1/history").json()["messages"]} >= {"acme", "rival"}
    assert reader.get("/api/v1/history/summary?minutes=0").status_code == 422


def test_without_a_history(queue: Queue, ann: TestClient) -> None:
    queue.set(history=False)
    try:
        assert "lonnymq queue set --history" in ann.get("/history").text
    finally:
        queue.set(history=True)
