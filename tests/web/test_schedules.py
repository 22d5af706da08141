"""The page of schedules: when they run, in words and times, and what can be done with them."""

import datetime as dt

import pytest
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.client.calls import ask
from lonnymq.commands import ScheduleOpen
from tests.web.conftest import As

DEFINED = {
    "nightly <1>": ("30 2 * * 1-5", "Europe/Berlin"),
    "often": ("*/10 * * * * *", "UTC"),
    "odd": ("every day", "Mars/Crater"),
}


@pytest.fixture(scope="module", autouse=True)
def schedules(queue: Queue, client_as: As) -> None:
    assert "There are no schedules" in client_as("ann").get("/schedules").text
    names = list(DEFINED)
    queue.perform(
        ask(
            ScheduleOpen(
                names,
                [cron for cron, _ in DEFINED.values()],
                [zone for _, zone in DEFINED.values()],
                ["one"] * 3,
                ["acme"] * 3,
                [b"1"] * 3,
                [{}] * 3,
            )
        )
    )


def listed(client: TestClient, name: str) -> dict[str, object]:
    [found] = [one for one in client.get("/api/v1/schedules").json() if one["name"] == name]
    return dict(found)


def test_when_they_run(ann: TestClient) -> None:
    nightly, often, odd = (listed(ann, name) for name in DEFINED)
    assert nightly["words"] == "At 02:30, Monday through Friday"
    times = nightly["next_at"]
    assert isinstance(times, list)
    assert len(times) == 3
    assert all(dt.datetime.fromtimestamp(at / 1000, dt.UTC).minute == 30 for at in times)
    assert (often["words"], odd["words"], odd["next_at"]) == ("Every 10 seconds", None, [])
    page = ann.get("/schedules").text
    assert "nightly &lt;1&gt;" in page
    assert "02:30" in page
    assert "Europe/Berlin" in page
    assert "unknown" in page


def test_what_can_be_done(ann: TestClient, queue: Queue) -> None:
    def do(wanted: str, **more: object) -> dict[str, object]:
        sent = ann.post("/api/v1/schedules", json={"name": "nightly <1>", "wanted": wanted, **more})
        assert sent.status_code == 200, sent.text
        newest = queue.audit(limit=1)[0]
        assert (newest.action, newest.target) == (f"schedule.{wanted}", "nightly <1>")
        assert newest.outcome is not None
        assert newest.outcome.startswith(str(sent.json()["result"]))
        return dict(sent.json())

    created = do("run")["id"]
    assert isinstance(created, int)
    assert queue.get(created) is not None
    assert do("pause")["result"] == "paused"
    assert listed(ann, "nightly <1>")["next_at"] == []
    assert "Resume and catch up" in ann.get("/schedules").text
    assert do("resume", catch_up=True)["result"] == "resumed"
    assert listed(ann, "nightly <1>")["paused_at"] is None
    assert do("delete")["result"] == "deleted"
    for wanted in ("run", "pause", "resume", "delete"):
        gone = ann.post("/api/v1/schedules", json={"name": "nightly <1>", "wanted": wanted})
        assert (gone.status_code, gone.json()["hint"] is not None) == (404, True), wanted
    assert ann.post("/api/v1/schedules", json={"name": "a\0b", "wanted": "run"}).status_code == 400


def test_without_rights(client_as: As) -> None:
    for path in ("/schedules", "/api/v1/schedules"):
        assert client_as("acme").get(path).status_code == 403
        assert client_as("reader").get(path).status_code == 200
    for person in ("acme", "reader"):
        sent = client_as(person).post("/api/v1/schedules", json={"name": "often", "wanted": "run"})
        assert sent.status_code == 403
    assert "Run now" not in client_as("reader").get("/schedules").text
