"""`conn=`: a call is part of the caller's transaction, and the caller commits or rolls back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from psycopg2.extras import wait_select
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from lonnymq import AsyncQueue, Queue, errors
from lonnymq.commands import Result
from tests.conformance.drivers import django_wrapper, url
from tests.database import Connect

WRITE = "INSERT INTO public.invoice VALUES (7)"


@pytest.fixture
def invoices(conn: psycopg.Connection) -> psycopg.Connection:
    """The test's database, with a table of the caller."""
    conn.execute("CREATE TABLE public.invoice (number INT)")
    return conn


def counts(conn: psycopg.Connection) -> tuple[int, int]:
    """The number of invoices, and of messages that are not leased."""
    (row,) = conn.execute(
        "SELECT (SELECT COUNT(*) FROM public.invoice),"
        " (SELECT COUNT(*) FROM messages WHERE status <> 'leased')"
    ).fetchall()
    return row[0], row[1]


class Caller:
    """A caller with an open transaction. `conn` is what it passes as `conn=`, `end` commits or rolls back."""

    def __init__(self, conn: Any, end: Callable[[str], object]) -> None:
        self.conn = conn
        self.end = end


@contextmanager
def psycopg_connection(dsn: str) -> Iterator[Caller]:
    with psycopg.connect(dsn) as conn:
        conn.execute(WRITE)
        yield Caller(conn, lambda ending: getattr(conn, ending)())


@contextmanager
def psycopg_cursor(dsn: str) -> Iterator[Caller]:
    with psycopg.connect(dsn) as conn, conn.cursor() as cursor:
        cursor.execute(WRITE)
        yield Caller(cursor, lambda ending: getattr(conn, ending)())


@contextmanager
def psycopg2_connection(dsn: str) -> Iterator[Caller]:
    conn = psycopg2.connect(dsn)
    with conn.cursor() as cursor:
        cursor.execute(WRITE)
    yield Caller(conn, lambda ending: getattr(conn, ending)())
    conn.close()


@contextmanager
def psycopg2_session(dsn: str) -> Iterator[Caller]:
    engine = create_engine(url(dsn, "psycopg2"))
    with Session(engine) as conn:
        conn.execute(text(WRITE))
        yield Caller(conn, lambda ending: getattr(conn, ending)())
    engine.dispose()


@contextmanager
def sqlalchemy_connection(dsn: str) -> Iterator[Caller]:
    engine = create_engine(url(dsn, "psycopg"))
    with engine.connect() as conn:
        conn.execute(text(WRITE))
        yield Caller(conn, lambda ending: getattr(conn, ending)())
    engine.dispose()


@contextmanager
def sqlalchemy_session(dsn: str) -> Iterator[Caller]:
    engine = create_engine(url(dsn, "psycopg"))
    with Session(engine) as conn:
        conn.execute(text(WRITE))
        yield Caller(conn, lambda ending: getattr(conn, ending)())
    engine.dispose()


@contextmanager
def django_connection(dsn: str) -> Iterator[Caller]:
    conn = django_wrapper(dsn)
    conn.set_autocommit(False)
    with conn.cursor() as cursor:
        cursor.execute(WRITE)
    yield Caller(conn, lambda ending: getattr(conn, ending)())
    conn.close()


SYNC = {
    "psycopg": psycopg_connection,
    "psycopg cursor": psycopg_cursor,
    "psycopg2": psycopg2_connection,
    "SQLAlchemy session, psycopg2": psycopg2_session,
    "SQLAlchemy connection": sqlalchemy_connection,
    "SQLAlchemy session": sqlalchemy_session,
    "Django": django_connection,
}


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("kind", SYNC)
def test_enqueue_with_a_business_write(
    dsn: str, invoices: psycopg.Connection, kind: str, ending: str
) -> None:
    with Queue(dsn) as queue, SYNC[kind](dsn) as caller:
        assert queue.enqueue("paid", conn=caller.conn).result is Result.CREATED
        assert queue.enqueue_many(["a", "b"], conn=caller.conn).created == 2
        assert counts(invoices) == (0, 0)
        caller.end(ending)
    assert counts(invoices) == ((1, 3) if ending == "commit" else (0, 0))


@pytest.mark.parametrize("kind", SYNC)
def test_the_callers_transaction_survives_a_message_that_does_not_fit(
    dsn: str, invoices: psycopg.Connection, kind: str
) -> None:
    with Queue(dsn) as queue, SYNC[kind](dsn) as caller:
        queue.channel("acme").set(max_size=1)
        queue.enqueue("fits", channel="acme", conn=caller.conn)
        with pytest.raises(errors.ChannelFull):
            queue.enqueue("does not", channel="acme", conn=caller.conn)
        caller.end("commit")
    assert counts(invoices) == (1, 1)


@pytest.mark.parametrize("kind", SYNC)
def test_nothing_can_be_committed_when_a_batch_does_not_fit(
    dsn: str, invoices: psycopg.Connection, kind: str
) -> None:
    with Queue(dsn) as queue, SYNC[kind](dsn) as caller:
        queue.channel("acme").set(max_size=1)
        with pytest.raises(errors.ChannelFull, match="1 of 2 messages do not fit"):
            queue.enqueue_many(["fits", "does not"], channel="acme", conn=caller.conn)
        caller.end("commit")
    assert counts(invoices) == (0, 0)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("kind", SYNC)
def test_complete_with_a_business_write(
    dsn: str, invoices: psycopg.Connection, kind: str, ending: str
) -> None:
    with Queue(dsn) as queue:
        queue.enqueue_many(range(3))
        one, other, third = queue.dequeue(3)
        with SYNC[kind](dsn) as caller:
            assert queue.complete(one, conn=caller.conn) is Result.COMPLETED
            assert queue.retry(other, conn=caller.conn) is Result.RETRIED
            assert queue.extend(third, 60, conn=caller.conn).result is Result.EXTENDED
            caller.end(ending)
        assert queue.complete(one) is (Result.NOT_FOUND if ending == "commit" else Result.COMPLETED)
        assert queue.complete(other) is (Result.LOST if ending == "commit" else Result.COMPLETED)


@pytest.mark.parametrize("kind", SYNC)
def test_the_callers_session_is_not_changed(dsn: str, invoices: psycopg.Connection, kind: str) -> None:
    """Its settings and its transaction stay the same."""
    with Queue(dsn) as queue, SYNC[kind](dsn) as caller:
        before = state_of(caller.conn)
        queue.enqueue("x", conn=caller.conn)
        queue.channel("acme").set(max_concurrency=1, conn=caller.conn)
        queue.stats(conn=caller.conn)
        assert state_of(caller.conn) == before
        caller.end("rollback")


def state_of(conn: Any) -> Any:
    """All settings and the transaction id, read through the caller's connection."""
    query = (
        "SELECT pg_current_xact_id()::TEXT, array_agg(name || setting ORDER BY name) FROM pg_settings"
        " WHERE name NOT LIKE 'plpgsql.%'"
    )
    if not hasattr(conn, "execute"):  # psycopg2 and Django
        with conn.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall()
    statement: Any = query if isinstance(conn, psycopg.Connection | psycopg.Cursor) else text(query)
    return [tuple(row) for row in conn.execute(statement).fetchall()]


async def asyncpg_connection(dsn: str, use: Callable[[Any], Awaitable[None]], ending: str) -> None:
    conn = await asyncpg.connect(dsn)
    transaction = conn.transaction()
    await transaction.start()
    await conn.execute(WRITE)
    await use(conn)
    await getattr(transaction, ending)()
    await conn.close()


async def psycopg_async(dsn: str, use: Callable[[Any], Awaitable[None]], ending: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await conn.execute(WRITE)
        await use(conn)
        await getattr(conn, ending)()


async def async_session(dsn: str, use: Callable[[Any], Awaitable[None]], ending: str) -> None:
    engine = create_async_engine(url(dsn, "asyncpg"))
    async with AsyncSession(engine) as conn:
        await conn.execute(text(WRITE))
        await use(conn)
        await getattr(conn, ending)()
    await engine.dispose()


async def async_connection(dsn: str, use: Callable[[Any], Awaitable[None]], ending: str) -> None:
    engine = create_async_engine(url(dsn, "psycopg"))
    async with engine.connect() as conn:
        await conn.execute(text(WRITE))
        await use(conn)
        await getattr(conn, ending)()
    await engine.dispose()


ASYNC = {
    "asyncpg": asyncpg_connection,
    "psycopg": psycopg_async,
    "SQLAlchemy session, asyncpg": async_session,
    "SQLAlchemy connection, psycopg": async_connection,
}


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("kind", ASYNC)
def test_enqueue_with_a_business_write_async(
    dsn: str, invoices: psycopg.Connection, kind: str, ending: str
) -> None:
    async def main() -> None:
        async with AsyncQueue(dsn) as queue:

            async def use(conn: Any) -> None:
                await queue.enqueue("paid", conn=conn)
                assert (await queue.enqueue_many(["a", "b"], conn=conn)).created == 2
                assert counts(invoices) == (0, 0)

            await ASYNC[kind](dsn, use, ending)

    asyncio.run(main())
    assert counts(invoices) == ((1, 3) if ending == "commit" else (0, 0))


def test_a_savepoint_of_the_caller_survives_an_error(dsn: str, invoices: psycopg.Connection) -> None:
    """The error aborts the transaction; the caller continues from its savepoint."""
    with Queue(dsn) as queue, psycopg.connect(dsn) as conn:
        conn.execute(WRITE)
        with pytest.raises(errors.InvalidChannel), conn.transaction():
            queue.enqueue("x", channel="", conn=conn)
        queue.enqueue("y", conn=conn)
        conn.commit()
    assert counts(invoices) == (1, 1)


def test_sync_and_async_connections_are_not_mixed(dsn: str, conn: psycopg.Connection) -> None:
    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            with pytest.raises(errors.UnsuitableConnection, match="use a Queue"):
                await queue.enqueue("x", conn=conn)
            async with await psycopg.AsyncConnection.connect(dsn) as async_conn:
                with Queue(dsn) as other, pytest.raises(errors.UnsuitableConnection, match="AsyncQueue"):
                    other.enqueue("x", conn=async_conn)

    asyncio.run(main())


def test_objects_that_a_queue_cannot_run_on(conn: psycopg.Connection, dsn: str) -> None:
    with pytest.raises(errors.UnsuitableConnection, match="conn="):
        Queue(conn)
    with pytest.raises(errors.UnsuitableConnection, match="use an AsyncQueue"):
        Queue(create_async_engine(url(dsn, "asyncpg")))
    with pytest.raises(errors.UnsuitableConnection, match="use a Queue"):
        AsyncQueue(create_engine(url(dsn, "psycopg")))
    with pytest.raises(errors.UnsuitableConnection):
        Queue(42)


def test_pools_and_engines_are_refused_as_conn(dsn: str) -> None:
    engine = create_engine(url(dsn, "psycopg"))
    with Queue(dsn) as queue, ConnectionPool(dsn, min_size=1, open=True) as pool:
        for conn in (engine, pool):
            with pytest.raises(errors.UnsuitableConnection, match="cannot be part of your transaction"):
                queue.enqueue("x", conn=conn)
        assert queue.channel("default").stats().waiting == 0
    engine.dispose()


def test_a_psycopg2_connection_in_asynchronous_mode_is_refused(dsn: str) -> None:
    conn = psycopg2.connect(dsn, async_=True)
    wait_select(conn)
    with Queue(dsn) as queue, pytest.raises(errors.UnsuitableConnection, match="asynchronous mode"):
        queue.enqueue("x", conn=conn)
    conn.close()


def test_a_psycopg2_connection_that_breaks(dsn: str, conn: psycopg.Connection) -> None:
    callers_conn = psycopg2.connect(dsn)
    with Queue(dsn) as queue:
        conn.execute("SELECT pg_terminate_backend(%s)", (callers_conn.get_backend_pid(),))
        for _ in range(2):  # the second time, psycopg2 knows that it is closed
            with pytest.raises(errors.ConnectionDropped):
                queue.enqueue("x", conn=callers_conn)
    callers_conn.close()


def test_a_scoped_session(dsn: str, invoices: psycopg.Connection) -> None:
    engine = create_engine(url(dsn, "psycopg"))
    session = scoped_session(sessionmaker(engine))
    with Queue(dsn) as queue:
        session.execute(text(WRITE))
        queue.enqueue("x", conn=session)
        session.rollback()
        assert counts(invoices) == (0, 0)
        queue.enqueue("x", conn=session)
        session.commit()
    session.remove()
    engine.dispose()
    assert counts(invoices) == (0, 1)


def test_commit_each_chunk_is_refused_with_conn(dsn: str, conn: psycopg.Connection) -> None:
    with Queue(dsn) as queue, pytest.raises(errors.InvalidArgument, match="commit_each_chunk"):
        queue.enqueue_many(["x"], commit_each_chunk=True, conn=conn)


def test_a_transaction_that_exceeded_transaction_timeout(
    dsn: str, conn: psycopg.Connection, connect: Connect
) -> None:
    callers_conn = connect(autocommit=False)
    callers_conn.execute("SET LOCAL transaction_timeout = '50ms'")
    pid = callers_conn.info.backend_pid
    alive = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s"
    while conn.execute(alive, (pid,)).fetchone() != (0,):
        pass
    with Queue(dsn) as queue, pytest.raises(errors.ConnectionDropped, match="transaction timeout"):
        queue.enqueue("too late", conn=callers_conn)
