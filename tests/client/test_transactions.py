"""`conn=`: a call is part of the caller's transaction, whatever they hold, and leaves the rest to them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
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
def books(conn: psycopg.Connection) -> psycopg.Connection:
    """The caller's own business."""
    conn.execute("CREATE TABLE public.invoice (number INT)")
    return conn


def left(conn: psycopg.Connection) -> tuple[int, int]:
    """Invoices, and messages that wait."""
    (row,) = conn.execute(
        "SELECT (SELECT COUNT(*) FROM public.invoice),"
        " (SELECT COUNT(*) FROM messages WHERE status <> 'leased')"
    ).fetchall()
    return row[0], row[1]


class Caller:
    """Somebody in the middle of a transaction."""

    def __init__(self, held: Any, end: Callable[[str], object]) -> None:
        self.held = held
        self.end = end


@contextmanager
def psycopg_connection(dsn: str) -> Iterator[Caller]:
    with psycopg.connect(dsn) as held:
        held.execute(WRITE)
        yield Caller(held, lambda ending: getattr(held, ending)())


@contextmanager
def psycopg_cursor(dsn: str) -> Iterator[Caller]:
    with psycopg.connect(dsn) as held, held.cursor() as cursor:
        cursor.execute(WRITE)
        yield Caller(cursor, lambda ending: getattr(held, ending)())


@contextmanager
def sqlalchemy_connection(dsn: str) -> Iterator[Caller]:
    engine = create_engine(url(dsn, "psycopg"))
    with engine.connect() as held:
        held.execute(text(WRITE))
        yield Caller(held, lambda ending: getattr(held, ending)())
    engine.dispose()


@contextmanager
def sqlalchemy_session(dsn: str) -> Iterator[Caller]:
    engine = create_engine(url(dsn, "psycopg"))
    with Session(engine) as held:
        held.execute(text(WRITE))
        yield Caller(held, lambda ending: getattr(held, ending)())
    engine.dispose()


@contextmanager
def django_connection(dsn: str) -> Iterator[Caller]:
    held = django_wrapper(dsn)
    held.set_autocommit(False)
    with held.cursor() as cursor:
        cursor.execute(WRITE)
    yield Caller(held, lambda ending: getattr(held, ending)())
    held.close()


SYNC = {
    "psycopg": psycopg_connection,
    "psycopg cursor": psycopg_cursor,
    "SQLAlchemy connection": sqlalchemy_connection,
    "SQLAlchemy session": sqlalchemy_session,
    "Django": django_connection,
}


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("holder", SYNC)
def test_enqueue_with_a_business_write(dsn: str, books: psycopg.Connection, holder: str, ending: str) -> None:
    with Queue(dsn) as queue, SYNC[holder](dsn) as caller:
        assert queue.enqueue("paid", conn=caller.held).result is Result.CREATED
        assert queue.enqueue_many(["a", "b"], conn=caller.held).created == 2
        assert left(books) == (0, 0)
        caller.end(ending)
    assert left(books) == ((1, 3) if ending == "commit" else (0, 0))


@pytest.mark.parametrize("holder", SYNC)
def test_the_callers_transaction_goes_on_when_a_message_does_not_fit(
    dsn: str, books: psycopg.Connection, holder: str
) -> None:
    with Queue(dsn) as queue, SYNC[holder](dsn) as caller:
        queue.channel("acme").set(max_size=1)
        queue.enqueue("fits", channel="acme", conn=caller.held)
        with pytest.raises(errors.ChannelFull):
            queue.enqueue("does not", channel="acme", conn=caller.held)
        caller.end("commit")
    assert left(books) == (1, 1)


@pytest.mark.parametrize("holder", SYNC)
def test_nothing_can_be_committed_when_a_batch_does_not_fit(
    dsn: str, books: psycopg.Connection, holder: str
) -> None:
    with Queue(dsn) as queue, SYNC[holder](dsn) as caller:
        queue.channel("acme").set(max_size=1)
        with pytest.raises(errors.ChannelFull, match="1 of 2 messages do not fit"):
            queue.enqueue_many(["fits", "does not"], channel="acme", conn=caller.held)
        caller.end("commit")
    assert left(books) == (0, 0)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("holder", SYNC)
def test_complete_with_a_business_write(
    dsn: str, books: psycopg.Connection, holder: str, ending: str
) -> None:
    with Queue(dsn) as queue:
        queue.enqueue_many(range(3))
        one, other, third = queue.dequeue(3)
        with SYNC[holder](dsn) as caller:
            assert queue.complete(one, conn=caller.held) is Result.COMPLETED
            assert queue.retry(other, conn=caller.held) is Result.RETRIED
            assert queue.extend(third, 60, conn=caller.held).result is Result.EXTENDED
            caller.end(ending)
        assert queue.complete(one) is (Result.NOT_FOUND if ending == "commit" else Result.COMPLETED)
        assert queue.complete(other) is (Result.LOST if ending == "commit" else Result.COMPLETED)


@pytest.mark.parametrize("holder", SYNC)
def test_nothing_else_of_the_callers_is_touched(dsn: str, books: psycopg.Connection, holder: str) -> None:
    """Its settings, its isolation level, its place in the transaction."""
    with Queue(dsn) as queue, SYNC[holder](dsn) as caller:
        before = state_of(caller.held)
        queue.enqueue("x", conn=caller.held)
        queue.channel("acme").set(max_concurrency=1, conn=caller.held)
        queue.stats(conn=caller.held)
        assert state_of(caller.held) == before
        caller.end("rollback")


def state_of(held: Any) -> Any:
    """Every setting, and which transaction it is: asked through what the caller holds."""
    asked = (
        "SELECT pg_current_xact_id()::TEXT, array_agg(name || setting ORDER BY name) FROM pg_settings"
        " WHERE name NOT LIKE 'plpgsql.%'"
    )
    if hasattr(held, "set_autocommit") and not isinstance(held, psycopg.Connection):
        with held.cursor() as cursor:
            cursor.execute(asked)
            return cursor.fetchall()
    statement: Any = asked if isinstance(held, psycopg.Connection | psycopg.Cursor) else text(asked)
    return [tuple(row) for row in held.execute(statement).fetchall()]


async def asyncpg_connection(dsn: str, use: Callable[[Any], Awaitable[None]], ending: str) -> None:
    held = await asyncpg.connect(dsn)
    transaction = held.transaction()
    await transaction.start()
    await held.execute(WRITE)
    await use(held)
    await getattr(transaction, ending)()
    await held.close()


async def psycopg_async(dsn: str, use: Callable[[Any], Awaitable[None]], ending: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as held:
        await held.execute(WRITE)
        await use(held)
        await getattr(held, ending)()


async def async_session(dsn: str, use: Callable[[Any], Awaitable[None]], ending: str) -> None:
    engine = create_async_engine(url(dsn, "asyncpg"))
    async with AsyncSession(engine) as held:
        await held.execute(text(WRITE))
        await use(held)
        await getattr(held, ending)()
    await engine.dispose()


async def async_connection(dsn: str, use: Callable[[Any], Awaitable[None]], ending: str) -> None:
    engine = create_async_engine(url(dsn, "psycopg"))
    async with engine.connect() as held:
        await held.execute(text(WRITE))
        await use(held)
        await getattr(held, ending)()
    await engine.dispose()


ASYNC = {
    "asyncpg": asyncpg_connection,
    "psycopg": psycopg_async,
    "SQLAlchemy session, asyncpg": async_session,
    "SQLAlchemy connection, psycopg": async_connection,
}


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("holder", ASYNC)
def test_the_same_asynchronously(dsn: str, books: psycopg.Connection, holder: str, ending: str) -> None:
    async def main() -> None:
        async with AsyncQueue(dsn) as queue:

            async def use(held: Any) -> None:
                await queue.enqueue("paid", conn=held)
                assert (await queue.enqueue_many(["a", "b"], conn=held)).created == 2
                assert left(books) == (0, 0)

            await ASYNC[holder](dsn, use, ending)

    asyncio.run(main())
    assert left(books) == ((1, 3) if ending == "commit" else (0, 0))


def test_an_error_leaves_the_end_to_the_caller(dsn: str, books: psycopg.Connection) -> None:
    """PostgreSQL has given the transaction up; a savepoint of the caller's saves it."""
    with Queue(dsn) as queue, psycopg.connect(dsn) as held:
        held.execute(WRITE)
        with pytest.raises(errors.InvalidChannel), held.transaction():
            queue.enqueue("x", channel="", conn=held)
        queue.enqueue("y", conn=held)
        held.commit()
    assert left(books) == (1, 1)


def test_kinds_are_not_mixed(dsn: str, conn: psycopg.Connection) -> None:
    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            with pytest.raises(errors.UnsuitableConnection, match="use a Queue"):
                await queue.enqueue("x", conn=conn)
            async with await psycopg.AsyncConnection.connect(dsn) as held:
                with Queue(dsn) as other, pytest.raises(errors.UnsuitableConnection, match="AsyncQueue"):
                    other.enqueue("x", conn=held)

    asyncio.run(main())


def test_what_a_queue_cannot_be_made_of(conn: psycopg.Connection, dsn: str) -> None:
    with pytest.raises(errors.UnsuitableConnection, match="conn="):
        Queue(conn)
    with pytest.raises(errors.UnsuitableConnection, match="use an AsyncQueue"):
        Queue(create_async_engine(url(dsn, "asyncpg")))
    with pytest.raises(errors.UnsuitableConnection, match="use a Queue"):
        AsyncQueue(create_engine(url(dsn, "psycopg")))
    with pytest.raises(errors.UnsuitableConnection):
        Queue(42)


def test_what_has_no_transaction(dsn: str) -> None:
    engine = create_engine(url(dsn, "psycopg"))
    with Queue(dsn) as queue, ConnectionPool(dsn, min_size=1, open=True) as pool:
        for held in (engine, pool):
            with pytest.raises(errors.UnsuitableConnection, match="cannot be part of your transaction"):
                queue.enqueue("x", conn=held)
        assert queue.channel("default").stats().waiting == 0
    engine.dispose()


def test_a_scoped_session(dsn: str, books: psycopg.Connection) -> None:
    engine = create_engine(url(dsn, "psycopg"))
    session = scoped_session(sessionmaker(engine))
    with Queue(dsn) as queue:
        session.execute(text(WRITE))
        queue.enqueue("x", conn=session)
        session.rollback()
        assert left(books) == (0, 0)
        queue.enqueue("x", conn=session)
        session.commit()
    session.remove()
    engine.dispose()
    assert left(books) == (0, 1)


def test_chunks_are_not_committed_for_the_caller(dsn: str, conn: psycopg.Connection) -> None:
    with Queue(dsn) as queue, pytest.raises(errors.InvalidArgument, match="commit_each_chunk"):
        queue.enqueue_many(["x"], commit_each_chunk=True, conn=conn)


def test_a_transaction_that_the_server_ended_for_taking_too_long(
    dsn: str, conn: psycopg.Connection, connect: Connect
) -> None:
    mine = connect(autocommit=False)
    mine.execute("SET LOCAL transaction_timeout = '50ms'")
    pid = mine.info.backend_pid
    alive = "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %s"
    while conn.execute(alive, (pid,)).fetchone() != (0,):
        pass
    with Queue(dsn) as queue, pytest.raises(errors.ConnectionDropped, match="transaction timeout"):
        queue.enqueue("too late", conn=mine)
