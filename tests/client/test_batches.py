"""Batches, on every kind of queue and in the caller's transaction."""

import asyncio
from typing import Any

import psycopg
import pytest

from lonnymq import App, AsyncQueue, BatchSummary, NewMessage, Queue, Result, errors
from tests.database import Connect
from tests.invariants import check

DONE = NewMessage({"done": True}, channel="callbacks", priority=7, headers={"trace": "7"})


def complete_all(queue: Any) -> list[Any]:
    """Complete everything; returns the callbacks."""
    found = []
    while deliveries := queue.dequeue(100):
        queue.complete_many(deliveries)
        found += [delivery for delivery in deliveries if delivery.channel == "callbacks"]
    return found


def test_a_block_is_a_batch(queue: Any, conn: psycopg.Connection) -> None:
    with queue.batch("import", on_complete=DONE) as batch:
        assert batch.enqueue({"row": 1}, channel="acme").result is Result.CREATED
        named, unnamed = NewMessage({"row": 3}, "bee", dedupe_key="k"), NewMessage({"row": 4})
        assert batch.enqueue_many([{"row": 2}, named, unnamed], channel="acme").created == 3
        queue_sees = conn.execute("SELECT COUNT(*) FROM batch").fetchone()
        assert queue_sees == (0,), "nothing is committed before the end of the block"
    with pytest.raises(errors.BatchNotOpen, match="the block of the batch 'import' has ended"):
        batch.enqueue("too late")
    found = queue.batch_status(batch.id)
    assert (found.name, found.status, found.total, found.waiting) == ("import", "closed", 4, 4)
    assert sorted(message.channel for message in queue.messages()) == ["acme", "acme", "acme", "bee"]
    [callback] = complete_all(queue)
    assert callback.payload == {"done": True}
    assert callback.headers["trace"] == "7"
    assert BatchSummary.of(callback.headers) == BatchSummary(batch.id, "import", 4, 4, 0, 0, None)
    assert queue.batch_status(batch.id).status == "finished"
    check(conn)


def test_nothing_is_left_of_a_block_that_raises(queue: Any, conn: psycopg.Connection) -> None:
    def fill() -> None:
        with queue.batch("import", on_complete=DONE) as batch:
            batch.enqueue({"row": 1})
            raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        fill()
    assert queue.batches() == []
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
    assert queue.enqueue("goes on").result is Result.CREATED


def test_several_transactions_fill_a_batch(queue: Any, conn: psycopg.Connection) -> None:
    batch_id = queue.open_batch("import", on_complete=DONE)
    queue.enqueue("one", batch_id=batch_id)
    queue.enqueue_many(["two", NewMessage("three", "bee")], batch_id=batch_id)
    other = queue.open_batch("other")
    queue.enqueue_many([NewMessage("four", batch_id=batch_id), "five"], batch_id=other)
    assert complete_all(queue) == [], "it is open"
    assert (queue.batch_status(batch_id).completed, queue.batch_status(other).completed) == (4, 1)
    assert queue.close_batch(batch_id) is Result.CLOSED
    assert len(complete_all(queue)) == 1
    assert queue.close_batch(10**12) is Result.NOT_FOUND
    with pytest.raises(errors.BatchNotOpen, match=f"batch {batch_id} is closed"):
        queue.enqueue("late", batch_id=batch_id)
    with pytest.raises(errors.BatchNotOpen, match="no batch"):
        queue.enqueue_many(["lost"], batch_id=10**12)
    check(conn)


def test_lists_and_cancel(queue: Any, conn: psycopg.Connection) -> None:
    with queue.batch("first", on_complete=DONE) as first:
        first.enqueue_many(range(3))
    second = queue.open_batch("second")
    assert [found.id for found in queue.batches()] == [second, first.id]
    assert [found.id for found in queue.batches(name="first")] == [first.id]
    assert [found.id for found in queue.batches(status="open")] == [second]
    assert [found.id for found in queue.batches(after=second, limit=1)] == [first.id]
    with pytest.raises(errors.InvalidQuery):
        queue.batches(status="dead")
    done = queue.cancel_batch(first.id)
    assert (done.result, done.messages) == (Result.CANCELLED, 3)
    assert queue.cancel_batch(second).result is Result.CANCELLED
    assert queue.cancel_batch(10**12).result is Result.NOT_FOUND
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
    check(conn)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_batch_in_the_callers_transaction(
    conn: psycopg.Connection, connect: Connect, dsn: str, *, is_kept: bool
) -> None:
    with Queue(dsn) as queue, connect() as own:
        with own.transaction(force_rollback=not is_kept):
            with queue.batch("import", on_complete=DONE, conn=own) as batch:
                batch.enqueue({"row": 1})
            assert queue.batch_status(batch.id, conn=own) is not None
            assert queue.batch_status(batch.id) is None
        assert (queue.batch_status(batch.id) is not None) is is_kept
    check(conn)


def test_tasks_of_a_batch(dsn: str, conn: psycopg.Connection) -> None:
    with Queue(dsn) as queue:
        app = App(queue)

        @app.task
        def add(row: int) -> None: ...

        with queue.batch("import") as batch:
            add.using(batch=batch, channel="acme").enqueue(1)
            batch.enqueue_many(add.message(row) for row in range(2))
        assert queue.batch_status(batch.id).total == 3  # type: ignore[union-attr]
        with pytest.raises(errors.InvalidArgument, match="a int is not a batch"):
            add.using(batch=batch.id)  # type: ignore[arg-type]
        batch_id = queue.open_batch("later")
        add.using(batch_id=batch_id).enqueue(7)
        assert queue.batch_status(batch_id).total == 1  # type: ignore[union-attr]
    check(conn)


def test_tasks_of_an_asynchronous_batch(dsn: str, conn: psycopg.Connection) -> None:
    async def main() -> int:
        async with AsyncQueue(dsn) as queue:
            app = App(queue)

            @app.task
            async def add(row: int) -> None: ...

            async with queue.batch("import") as batch:
                await add.using(batch=batch).enqueue_async(1)
            found = await queue.batch_status(batch.id)
            assert found is not None
            return found.total

    assert asyncio.run(main()) == 1
    check(conn)


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        ("report", "a str is not a message"),
        (NewMessage(1, delay=7), "a callback cannot have a delay"),
        (NewMessage(1, dedupe_key="k"), "a callback cannot have a dedupe_key"),
        (NewMessage(1, priority=101), "a priority of 101 is out of range"),
        (NewMessage(float("nan")), "JSON"),
        (NewMessage(1, lane=""), "lane"),
    ],
)
@pytest.mark.parametrize("name", ["on_complete", "on_failure"])
def test_callbacks_that_are_refused(dsn: str, name: str, callback: Any, message: str) -> None:
    with Queue(dsn) as queue:
        with pytest.raises(errors.LonnyMQError, match=message):
            queue.open_batch("import", **{name: callback})
        assert queue.batches() == []


def test_a_batch_id_that_is_no_number(dsn: str) -> None:
    with Queue(dsn) as queue, pytest.raises(errors.InvalidField, match="batch_id: 'x' is not a whole number"):
        queue.enqueue_many([1], batch_id="x")  # type: ignore[arg-type]
