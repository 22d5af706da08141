"""The pages of workers: what they have leased, tasks that none knows, and requests to them."""

import uuid

import pytest
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.client.calls import ask
from lonnymq.commands import WorkerReport
from tests.web.conftest import As

NAME = "mail/1 <é>"


def test_without_workers(ann: TestClient) -> None:
    assert ann.get("/api/v1/workers").json() == []
    assert "No worker is running" in ann.get("/workers").text
    assert "No worker of this name is running" in ann.get("/worker", params={"name": "x"}).text


@pytest.fixture(scope="module")
def worker(queue: Queue) -> None:
    report = WorkerReport(
        uuid.uuid4(),
        NAME,
        "web-1",
        7,
        "0.1.0",
        60_000,
        ["bill"],
        4,
        2,
        "serving",
        None,
        ["mail"],
        [3],
        [5_000],
    )
    queue.perform(ask(report))
    for number in range(3):
        queue.enqueue(number, channel="acme", headers={"task": "bill"})
    assert len(queue.dequeue(2, consumer=NAME)) == 2
    assert len(queue.dequeue(1, consumer="another")) == 1


@pytest.mark.usefixtures("worker")
def test_what_it_has_leased(ann: TestClient) -> None:
    leases = ann.get("/api/v1/workers/leases", params={"name": NAME}).json()
    assert [(lease["channel"], lease["task"], lease["attempts"]) for lease in leases] == [
        ("acme", "bill", 1)
    ] * 2
    rest = {"name": NAME, "after": leases[0]["cursor"], "limit": 1}
    assert ann.get("/api/v1/workers/leases", params=rest).json() == leases[1:]
    page = ann.get("/worker", params={"name": NAME}).text
    assert all(f'/message?id={lease["id"]}"' in page for lease in leases)
    assert "mail/1 &lt;é&gt;" in page
    assert "Unknown to it: mail" in page


@pytest.mark.usefixtures("worker")
def test_tasks_that_no_worker_knows(ann: TestClient) -> None:
    [task] = ann.get("/api/v1/workers/unknown-tasks").json()
    assert (task["task"], task["messages"], task["is_known"]) == ("mail", 3, False)
    page = ann.get("/workers").text
    assert "Unknown tasks" in page
    assert "2 of 4" in page


@pytest.mark.usefixtures("worker")
def test_pause_resume_and_drain(ann: TestClient, queue: Queue, client_as: As) -> None:
    for wanted, state, button in (
        ("pause", "paused", "Resume"),
        ("resume", "serving", "Pause"),
        ("drain", "draining", "Resume"),
    ):
        [asked] = ann.post("/api/v1/workers", json={"worker": NAME, "wanted": wanted}).json()
        assert asked["name"] == NAME
        assert [worker.requested for worker in queue.workers()] == [state]
        page = ann.get("/workers").text
        assert f'<button class="">{button}</button>' in page
        assert (state == "serving") is ("asked to be" not in page)
        newest = queue.audit(limit=1)[0]
        assert (newest.who, newest.action, newest.target) == ("ann", f"worker.{wanted}", NAME)
        assert newest.outcome == "1 worker asked"
    unknown = ann.post("/api/v1/workers", json={"worker": "x", "wanted": "drain"})
    assert (unknown.status_code, unknown.json()["error"]) == (404, "NotFound")
    assert (
        "<button" not in client_as("reader").get("/workers").text.partition("<main")[2].partition("</main")[0]
    )


@pytest.mark.usefixtures("worker")
def test_without_rights(client_as: As) -> None:
    reads = (
        "/workers",
        "/api/v1/workers",
        "/api/v1/workers/unknown-tasks",
        "/worker?name=x",
        "/api/v1/workers/leases?name=x",
    )
    for path in reads:
        assert client_as("acme").get(path).status_code == 403, path
        assert client_as("reader").get(path).status_code == 200, path
    for person in ("acme", "reader"):
        sent = client_as(person).post("/api/v1/workers", json={"worker": "*", "wanted": "drain"})
        assert sent.status_code == 403
