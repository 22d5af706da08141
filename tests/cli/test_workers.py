"""lonnymq workers, and what stats and doctor say about workers and the tasks that they do not know."""

from uuid import uuid4

import psycopg

from lonnymq import Queue
from lonnymq.client.calls import ask
from lonnymq.commands import WorkerReport
from tests.cli.conftest import Run

FIELDS = {
    *("id", "name", "host", "pid", "version", "started_at", "seen_at", "is_alive", "state", "requested"),
    *("concurrency", "running", "lanes", "tasks", "unknown_tasks"),
}


def report(queue: Queue, name: str, tasks: list[str], unknown: str | None = None) -> WorkerReport:
    made = WorkerReport(
        *(uuid4(), name, f"host-of-{name}", 7, "0.1.0", 60_000, tasks, 10, 3, "serving", None),
        *(([], [], []) if unknown is None else ([unknown], [4], [120_000])),
    )
    queue.perform(ask(made))
    return made


def test_list(queue: Queue, conn: psycopg.Connection, lonnymq: Run) -> None:
    assert lonnymq("workers", "list").stderr.startswith("No worker is running.")
    report(queue, "mail-1", ["send", ""])
    report(queue, "mail-2", ["send"], unknown="new")
    conn.execute("UPDATE worker SET seen_at = seen_at - 180000 WHERE name = 'mail-2'")
    first, second = lonnymq("workers", "--json").records
    assert lonnymq("workers", "list", "--json").records == [first, second]
    assert set(first) == FIELDS
    assert (first["name"], first["is_alive"], first["tasks"]) == ("mail-1", True, ["send", ""])
    assert (second["is_alive"], second["unknown_tasks"]) == (False, ["new"])
    head, one, two = lonnymq("workers").stdout.splitlines()
    assert head.split()[:5] == ["worker", "state", "running", "started", "seen"]
    assert one.split()[:3] == ["mail-1", "serving", "3/10"]
    assert "60 s ago" in one
    assert "send, (without a task)" in one
    assert two.split()[:2] == ["mail-2", "lost"]
    assert "3 min ago" in two
    assert two.endswith("new")


def test_pause_resume_and_drain(queue: Queue, conn: psycopg.Connection, lonnymq: Run) -> None:
    one = report(queue, "mail-1", [])
    report(queue, "mail-2", [])
    conn.execute("UPDATE worker SET seen_at = 0 WHERE name = 'mail-2'")
    done = lonnymq("workers", "pause", "mail-1")
    assert (done.code, done.stdout, done.stderr) == (0, "asked to pause: mail-1\n", "")
    assert queue.perform(ask(one)).requested == "paused"
    assert "to be paused" in lonnymq("workers").stdout
    done = lonnymq("workers", "drain", "mail-*")
    assert done.stdout == "asked to drain: mail-1\nasked to drain: mail-2\n"
    assert "have not reported for 30 seconds" in done.stderr
    assert queue.perform(ask(one)).requested == "draining"
    [record] = lonnymq("workers", "resume", "host-of-mail-1", "--json").records
    assert record == {"id": str(one.id), "name": "mail-1", "is_alive": True}
    assert queue.perform(ask(one)).requested == "serving"
    conn.execute("UPDATE worker SET state = 'draining' WHERE name = 'mail-1'")  # by a signal
    assert lonnymq("workers").stdout.splitlines()[1].split()[:3] == ["mail-1", "draining", "3/10"]


def test_no_worker_of_that_name(lonnymq: Run) -> None:
    for command in ("pause", "resume", "drain"):
        done = lonnymq("workers", command, "mail-1")
        assert (done.code, done.stdout) == (1, "")
        assert "there is no worker 'mail-1' (`lonnymq workers` lists the workers)" in done.stderr


def test_options_go_after_the_command(lonnymq: Run) -> None:
    done = lonnymq("workers", "--json", "list")
    assert done.code == 2
    assert "write it at the end: lonnymq workers list" in done.stderr


def test_stats_show_workers_and_the_tasks_that_none_knows(queue: Queue, lonnymq: Run) -> None:
    found = lonnymq("stats", "--json").record
    assert (found["workers"], found["unknown_tasks"]) == (0, [])
    assert "unknown tasks" not in lonnymq("stats").stdout
    report(queue, "old", ["send"], unknown="new")
    found = lonnymq("stats", "--json").record
    assert (found["workers"], found["unknown_tasks"]) == (1, ["new"])
    assert "unknown tasks" in lonnymq("stats").stdout
    report(queue, "newer", ["new"])
    found = lonnymq("stats", "--json").record
    assert (found["workers"], found["unknown_tasks"]) == (2, [])


def test_doctor(queue: Queue, conn: psycopg.Connection, lonnymq: Run) -> None:
    def findings() -> dict[str, tuple[str, str]]:
        found = lonnymq("doctor", "--json").records
        return {each["check"]: (each["status"], each["message"]) for each in found}

    assert findings()["workers"] == ("ok", "none has reported (those of Celery and taskiq do not)")
    report(queue, "old", ["send"], unknown="new")
    assert findings()["workers"] == ("ok", "1 worker")
    assert findings()["tasks"] == (
        "warning",
        "no worker has a handler for the task 'new': 1 worker rejected 4 messages in the last 2 min",
    )
    report(queue, "newer", ["new"])
    assert findings()["tasks"] == ("ok", "every task that workers have met is known")
    queue.pause_worker("newer")
    assert findings()["workers"] == ("warning", "worker 'newer' is paused")
    conn.execute("UPDATE worker SET seen_at = seen_at - 600000 WHERE name = 'old'")
    status, message = findings()["workers"]
    assert (status, message[:37]) == ("warning", "worker 'old' last reported 10 min ago")
