"""lonnymq batches."""

import pytest

from lonnymq import NewMessage, Queue
from tests.cli.conftest import Run
from tests.cli.running import on_terminal


@pytest.fixture
def batch_id(queue: Queue) -> int:
    """A batch with a message that waits, one that is completed and one that is dead."""
    done = NewMessage("done", channel="callbacks")
    with queue.batch("nightly\nimport", on_complete=done) as batch:
        batch.enqueue_many(NewMessage(n, max_attempts=1) for n in range(3))
    first, second = queue.dequeue(2)
    queue.complete(first)
    queue.retry(second, error="no route")
    return batch.id


def test_a_list(queue: Queue, batch_id: int, lonnymq: Run) -> None:
    queue.open_batch("other")
    done = lonnymq("batches", "list")
    assert done.code == 0
    head, *rows = (line.split() for line in done.stdout.splitlines())
    counted = ["total", "waiting", "leased", "completed", "dead", "cancelled"]
    assert head == ["id", "name", "status", *counted, "opened"]
    assert [row[:9] for row in rows] == [
        ["2", "other", "open", "0", "0", "0", "0", "0", "0"],
        ["1", r"nightly\nimport", "closed", "3", "1", "0", "1", "1", "0"],
    ]


def test_a_list_of_some(queue: Queue, batch_id: int, lonnymq: Run) -> None:
    other = queue.open_batch("other")

    def ids(*arguments: str) -> list[int]:
        return [found["id"] for found in lonnymq("batches", "list", "--json", *arguments).records]

    assert ids() == [other, batch_id]
    assert ids("--name", "other") == [other]
    assert ids("--status", "closed") == [batch_id]
    assert ids("--limit", "1", "--after", str(other)) == [batch_id]
    assert f"--after {other}" in lonnymq("batches", "list", "--limit", "1").stderr
    none = lonnymq("batches", "list", "--status", "cancelled")
    assert (none.code, none.stdout, none.stderr) == (0, "", "There are no batches.\n")


def test_show(batch_id: int, lonnymq: Run) -> None:
    shown = lonnymq("batches", "show", str(batch_id)).stdout.splitlines()
    assert r"name                nightly\nimport" in shown
    assert "status              closed" in shown
    assert "first dead message  2" in shown
    assert not any(line.startswith("finished") for line in shown)
    record = lonnymq("batches", "show", str(batch_id), "--json").record
    assert (record["name"], record["dead"], record["failed_id"]) == ("nightly\nimport", 1, 2)
    missing = lonnymq("batches", "show", "99")
    assert (missing.code, missing.stdout) == (1, "")
    assert "there is no batch 99" in missing.stderr


def test_close(queue: Queue, lonnymq: Run) -> None:
    left_open = queue.open_batch("left open")
    assert lonnymq("batches", "close", str(left_open)).stdout == f"closed: batch {left_open}\n"
    assert lonnymq("batches", "close", str(left_open), "--json").record == {
        "id": left_open,
        "result": "closed",
    }
    assert lonnymq("batches", "close", "99").code == 1


def test_cancel(queue: Queue, batch_id: int, lonnymq: Run) -> None:
    refused = lonnymq("batches", "cancel", str(batch_id))
    assert refused.code != 0
    assert "--yes" in refused.stderr
    done = lonnymq("batches", "cancel", str(batch_id), "--yes")
    assert done.stdout == f"cancelled: batch {batch_id}, 1 message\n"
    found = queue.batch_status(batch_id)
    assert found is not None
    assert (found.status, found.cancelled, found.waiting) == ("cancelled", 1, 0)
    again = lonnymq("batches", "cancel", str(batch_id), "--yes", "--json").record
    assert again == {"id": batch_id, "result": "cancelled", "messages": 0}
    assert lonnymq("batches", "cancel", "99", "--yes").code == 1
    empty = queue.open_batch("empty")
    queue.close_batch(empty)
    finished = lonnymq("batches", "cancel", str(empty), "--yes").stdout
    assert finished == f"finished: batch {empty} has nothing left to cancel\n"


def test_cancel_asks_on_a_terminal(queue: Queue, batch_id: int, dsn: str) -> None:
    code, shown = on_terminal(["batches", "cancel", str(batch_id)], dsn, b"n\n")
    assert code == 1
    assert r"Cancel batch 1, 'nightly\nimport', with 1 unfinished message?" in shown
    found = queue.batch_status(batch_id)
    assert found is not None
    assert found.status == "closed"


def test_enqueue_into_a_batch(queue: Queue, lonnymq: Run) -> None:
    batch_id = queue.open_batch("open")
    assert lonnymq("enqueue", "7", "--batch-id", str(batch_id)).code == 0
    lines = f'{{"payload": 1, "batch_id": {batch_id}}}\n{{"payload": 2}}\n'.encode()
    assert lonnymq("enqueue", "--file", "-", stdin=lines).code == 0
    found = queue.batch_status(batch_id)
    assert found is not None
    assert found.total == 2
    closed = lonnymq("enqueue", "7", "--batch-id", "99")
    assert closed.code == 1
    assert "there is no batch 99" in closed.stderr
    shown = lonnymq("messages", "show", "1").stdout.splitlines()
    assert any(line.split() == ["batch", str(batch_id)] for line in shown)
