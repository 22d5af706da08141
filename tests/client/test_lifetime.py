"""Making a queue, installing it, and closing it."""

import asyncio
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine

from lonnymq import AsyncQueue, Queue, errors
from lonnymq.adapters.psycopg_pool import own_async_pool, own_pool
from lonnymq.install import inspect
from tests.conformance.drivers import url


def test_no_connection_is_opened_before_the_first_call(dsn: str, conn: psycopg.Connection) -> None:
    queue = Queue(dsn)
    sessions = (
        "SELECT COUNT(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'lonnymq'"
    )
    assert conn.execute(sessions).fetchone() == (0,)
    queue.stats()
    assert conn.execute(sessions).fetchone() == (1,)
    queue.close()


def test_a_closed_queue_raises(dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.stats()
    with pytest.raises(errors.QueueClosed):
        queue.stats()


def test_a_queue_that_was_closed_before_its_first_call(dsn: str) -> None:
    queue = Queue(dsn)
    queue.close()
    with pytest.raises(errors.QueueClosed):
        queue.stats()


def test_the_callers_pool_stays_open(dsn: str) -> None:
    with ConnectionPool(dsn, min_size=1, open=True) as pool:
        with Queue(pool) as queue:
            queue.stats()
        with pool.connection() as callers_conn:
            assert callers_conn.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("kind", ["sync", "async", "pool"])
def test_install(dsn: str, conn: psycopg.Connection, kind: str) -> None:
    async def install() -> Any:
        async with AsyncQueue(dsn, "mine") as queue:
            found = await queue.install()
            await queue.enqueue("x")
            return found

    if kind == "async":
        found = asyncio.run(install())
    elif kind == "sync":
        with Queue(dsn, "mine") as queue:
            found = queue.install()
            queue.enqueue("x")
    else:
        with ConnectionPool(dsn, min_size=1, open=True) as pool:
            found = Queue(pool, "mine").install()
    assert found == inspect(conn, "mine")


def test_install_in_the_callers_transaction(dsn: str, conn: psycopg.Connection) -> None:
    with Queue(dsn, "mine") as queue, psycopg.connect(dsn) as callers_conn:
        queue.install(conn=callers_conn)
        callers_conn.rollback()
    with pytest.raises(errors.SchemaMissing):
        inspect(conn, "mine")


def test_install_through_an_engine(dsn: str, conn: psycopg.Connection) -> None:
    engine = create_engine(url(dsn, "psycopg"))
    Queue(engine, "mine").install()
    engine.dispose()
    assert inspect(conn, "mine").schema == "mine"


def test_install_through_an_engine_with_a_creator(dsn: str, conn: psycopg.Connection) -> None:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    Queue(engine, "mine").install()
    engine.dispose()
    assert inspect(conn, "mine").schema == "mine"


def test_install_refuses_other_kinds_of_connection(dsn: str) -> None:
    engine = create_engine(url(dsn, "psycopg"))
    with Queue(dsn) as queue, engine.connect() as callers_conn, psycopg.connect(dsn) as conn:
        for given in (callers_conn, conn.cursor(), 7):
            with pytest.raises(errors.UnsuitableConnection):
                queue.install(conn=given)
    engine.dispose()


def test_an_asyncpg_pool_cannot_install(dsn: str) -> None:
    async def install() -> None:
        async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
            with pytest.raises(errors.UnsuitableConnection, match="lonnymq install"):
                await AsyncQueue(pool).install()

    asyncio.run(install())


@pytest.mark.parametrize("address", ["postgresql://me:hunter2@host:port/x", "no address", "host=a=b c"])
def test_an_invalid_address_is_refused_at_once_and_not_shown(address: str) -> None:
    for kind in (Queue, AsyncQueue):
        with pytest.raises(errors.InvalidAddress) as caught:
            kind(address)
        assert "hunter2" not in str(caught.value)


def test_an_address_in_sqlalchemys_spelling(dsn: str) -> None:
    with Queue(url(dsn, "psycopg")) as queue:
        assert queue.settings().lease_ms > 0


def test_a_failed_connection_reports_the_reason_at_once(dsn: str) -> None:
    reason = 'database "nowhere" does not exist'
    with (
        Queue(make_conninfo(dsn, dbname="nowhere")) as queue,
        pytest.raises(errors.DatabaseUnreachable, match=reason),
    ):
        queue.stats()


@pytest.mark.parametrize("schema", ["", "x" * 64, "pg_mine"])
def test_an_invalid_schema_name(dsn: str, schema: str) -> None:
    with pytest.raises(errors.InvalidSchemaName):
        Queue(dsn, schema)


def test_repr(dsn: str) -> None:
    assert repr(Queue(dsn, "mine")) == "<Queue 'mine' on ConnectionPool>"


def test_a_schema_with_an_awkward_name(dsn: str) -> None:
    with Queue(dsn, 'my "q" FROM %s :x $1') as queue:
        queue.install()
        queue.enqueue("x")
        (message,) = queue.dequeue()
        assert message.payload == "x"
        queue.set(history=True)
        queue.complete(message)
        assert len(queue.history(channel="default")) == len(queue.history()) == 1


def test_a_missing_schema(dsn: str) -> None:
    with Queue(dsn, "elsewhere") as queue, pytest.raises(errors.SchemaMissing) as caught:
        queue.enqueue("x")
    assert "install" in (caught.value.hint or "")


def test_every_call_is_documented() -> None:
    for kind in (Queue, AsyncQueue):
        for name in dir(kind):
            if not name.startswith("_") and name != "perform":
                assert getattr(kind, name).__doc__, f"{kind.__name__}.{name}"


def test_its_own_pool_retries_no_longer_than_a_call_waits() -> None:
    """The pool doubles its pauses. Once it has given up, the next call connects at once."""
    pools = [own_pool("host=/nowhere", 2, 7), own_async_pool("host=/nowhere", 2, 7)]
    assert [(pool.timeout, pool.reconnect_timeout) for pool in pools] == [(7, 7)] * 2
