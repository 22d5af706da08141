"""lonnymq stats, lonnymq history."""

from datetime import datetime, timedelta, timezone

from lonnymq import Queue
from tests.cli.conftest import Run
from tests.cli.running import on_terminal


def test_stats(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue_many(range(3), channel="acme")
    queue.enqueue("later", delay=600)
    queue.set(max_concurrency=5)
    queue.dequeue()
    queue.dequeue()
    done = lonnymq("stats")
    shown = {line[:15].strip(): line[17:] for line in done.stdout.splitlines()}
    assert done.code == 0
    assert (shown["leased"], shown["max concurrency"]) == ("2", "2 of 5 in use")
    assert shown["state"] == "ready"
    record = lonnymq("stats", "--json").record
    assert (record["leased"], record["running"], record["paused"]) == (2, 2, False)
    queue.set(paused=True)
    assert "state            paused\n" in lonnymq("stats").stdout


def test_stats_of_nothing(lonnymq: Run) -> None:
    shown = lonnymq("stats").stdout.splitlines()
    assert {"state            empty", "waiting          0", "max concurrency  no limit"} <= set(shown)


def test_history(queue: Queue, lonnymq: Run) -> None:
    queue.set(history=True)
    queue.enqueue("done", channel="a")
    [message] = queue.dequeue()
    queue.complete(message)
    queue.enqueue("dead", channel="b", max_attempts=1)
    [message] = queue.dequeue()
    queue.retry(message, error="no\nroute")
    queue.enqueue("gone", channel="c" * 100, delay=600)
    queue.cancel(3)
    head, *rows = (line.split() for line in lonnymq("history").stdout.splitlines())
    assert head == ["id", "channel", "lane", "outcome", "finished", "waited", "worked", "attempts", "error"]
    assert [row[0] for row in rows] == ["3", "2", "1"]
    assert [row[3] for row in rows] == ["cancelled", "dead", "completed"]
    assert rows[1][-1] == r"no\nroute"
    assert [message["id"] for message in lonnymq("history", "--channel", "a", "--json").records] == [1]
    assert [message["id"] for message in lonnymq("history", "--limit", "2", "--json").records] == [3, 2]


def test_a_summary(queue: Queue, lonnymq: Run) -> None:
    queue.set(history=True)
    for task in ("mail", "mail", None):
        queue.enqueue(1, headers=None if task is None else {"task": task})
    for message in queue.dequeue(3):
        queue.complete(message)
    head, *rows = (line.split() for line in lonnymq("history", "--summary").stdout.splitlines())
    assert head[:6] == ["task", "finished", "dead", "cancelled", "attempts", "waited"]
    assert rows[0][:5] == ["mail", "2", "0", "0", "1.00"]
    assert rows[1][:4] == ["1", "0", "0", "1.00"]
    records = lonnymq("history", "--summary", "--json").records
    assert [(record["task"], record["messages"]) for record in records] == [("mail", 2), (None, 1)]
    assert lonnymq("history", "--summary", "--channel", "none").stderr == "No message has finished.\n"


def test_history_fits_80_columns(queue: Queue, dsn: str) -> None:
    queue.set(history=True)
    queue.enqueue("gone", channel="c" * 100)
    queue.cancel(1)
    shown = on_terminal(["history"], dsn)[1].replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(map(len, shown.splitlines())) <= 80


def test_history_since(queue: Queue, lonnymq: Run) -> None:
    queue.set(history=True)
    queue.enqueue("gone")
    queue.cancel(1)
    here = datetime.now().astimezone()

    def finished(since: datetime) -> int:
        return len(lonnymq("history", "--json", "--since", since.isoformat()).records)

    for now in (here, here.replace(tzinfo=None), here.astimezone(timezone(timedelta(hours=5)))):
        assert finished(now - timedelta(minutes=5)) == 1
        assert finished(now + timedelta(minutes=5)) == 0


def test_no_history(queue: Queue, lonnymq: Run) -> None:
    for more in ([], ["--json"]):
        done = lonnymq("history", *more)
        assert (done.code, done.stdout) == (0, "")
        assert "does not keep a history" in done.stderr
    queue.set(history=True)
    assert lonnymq("history").stderr == "No message has finished.\n"


WRONG = [
    (["--since", "yesterday"], "'yesterday' is not a time (write 2030-12-31T09:00"),
    (["--limit", "0"], "--limit"),
    (["--limit", "99999999999"], "out of range"),
]


def test_wrong_use(lonnymq: Run) -> None:
    for arguments, says in WRONG:
        done = lonnymq("history", *arguments)
        assert (done.code, done.stdout) == (2, ""), done.stderr
        assert says in done.said
