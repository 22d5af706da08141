"""The queue's transactions work whatever the default isolation level of the database or engine is."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg import sql
from sqlalchemy import create_engine

from lonnymq import AsyncQueue, Queue
from lonnymq.client.produce import Chunk
from lonnymq.commands import Result
from tests.conformance.drivers import url
from tests.queues import OWN_POOL, queue_of


@pytest.mark.parametrize("kind", [*OWN_POOL, "SQLAlchemy engine", "SQLAlchemy async engine, asyncpg"])
@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_the_default_level_of_the_database(dsn: str, conn: psycopg.Connection, kind: str, level: str) -> None:
    conn.execute(
        sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = {}").format(
            sql.Identifier(conn.info.dbname), level
        )
    )
    with queue_of(kind, dsn) as queue:
        round_trip(queue)
        assert queue.enqueue_many(range(3)).created == 3
        assert queue.set(max_concurrency=5).max_concurrency == 5
        assert queue.maintain() >= 0


@pytest.mark.parametrize("level", ["SERIALIZABLE", "AUTOCOMMIT"])
def test_the_default_level_of_an_engine(
    dsn: str, conn: psycopg.Connection, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Chunk, "max_messages", 2)
    engine = create_engine(url(dsn, "psycopg"), isolation_level=level)

    def failing() -> Iterator[int]:
        yield from range(5)
        raise OSError("ends here")

    with Queue(engine) as queue:
        round_trip(queue)
        with pytest.raises(OSError, match="ends here"):
            queue.enqueue_many(failing())
    engine.dispose()
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)


def round_trip(queue: Any) -> None:
    queue.enqueue("x")
    (message,) = queue.dequeue()
    assert queue.complete(message) is Result.COMPLETED


def test_rows_are_read_and_enqueued_in_one_transaction(
    dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor is read and its rows are enqueued over the same connection, in chunks."""
    monkeypatch.setattr(Chunk, "max_messages", 10)

    async def main() -> None:
        callers_conn = await asyncpg.connect(dsn)
        async with AsyncQueue(dsn) as queue, callers_conn.transaction():

            async def rows() -> AsyncIterator[int]:
                async for row in callers_conn.cursor("SELECT n FROM generate_series(1, 35) n", prefetch=3):
                    yield row["n"]

            assert (await queue.enqueue_many(rows(), conn=callers_conn)).created == 35
        await callers_conn.close()

    asyncio.run(main())
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (35,)
