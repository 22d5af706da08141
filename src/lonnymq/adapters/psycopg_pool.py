"""psycopg pools, sync and async. Each call is its own transaction, on a connection of the pool."""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed

from lonnymq.adapters import psycopg as adapter
from lonnymq.adapters.address import conninfo, parameters
from lonnymq.adapters.driver_errors import (
    CallerBlock,
    with_translated_errors,
    with_translated_errors_async,
)
from lonnymq.errors import DatabaseUnreachable, QueueClosed, ReadOnlyDatabase
from lonnymq.server_errors import hint_to_connect
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC = (ConnectionPool,)
ASYNC = (AsyncConnectionPool,)
POOLS = (*SYNC, *ASYNC)
SESSION_QUERY = (
    "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('default_transaction_isolation')"
)
AFTER_FORK = "make the pool and the queue in the child process, or give the queue a DSN"
READ_COMMITTED = "read committed"  # a dequeue needs it, whatever the database's default is


def run(pool: ConnectionPool[Any], schema: str, command: Command[Result]) -> Result:
    with borrowed(pool) as connection:
        return adapter.run(connection, schema, command)


async def run_async(pool: AsyncConnectionPool[Any], schema: str, command: Command[Result]) -> Result:
    async with _borrowed_async(pool) as connection:
        return await adapter.run_async(connection, schema, command)


def run_pair(pool: ConnectionPool[Any], schema: str, first: Command[Any], second: Command[Result]) -> Result:
    with borrowed(pool) as connection:
        if adapter.commits_each(connection):
            return adapter.run_pair(connection, schema, first, second)
    run(pool, schema, first)
    return run(pool, schema, second)


async def run_pair_async(
    pool: AsyncConnectionPool[Any], schema: str, first: Command[Any], second: Command[Result]
) -> Result:
    async with _borrowed_async(pool) as connection:
        if adapter.commits_each(connection):
            return await adapter.run_pair_async(connection, schema, first, second)
    await run_async(pool, schema, first)
    return await run_async(pool, schema, second)


@contextmanager
def transaction(pool: ConnectionPool[Any]) -> Iterator[Connection[Any]]:
    with (
        borrowed(pool) as connection,
        with_translated_errors(connection.transaction(), (psycopg.Error,)),
    ):
        yield connection


@asynccontextmanager
async def transaction_async(pool: AsyncConnectionPool[Any]) -> AsyncIterator[AsyncConnection[Any]]:
    async with (
        _borrowed_async(pool) as connection,
        with_translated_errors_async(connection.transaction(), (psycopg.Error,)),
    ):
        yield connection


def address(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> str | None:
    if callable(pool.conninfo) or callable(pool.kwargs):
        return None  # they may give another address each time
    return conninfo(pool.conninfo, **(pool.kwargs or {}))


def open_connections(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> object | None:
    return None if pool.closed else pool


def own_pool(dsn: str, max_size: int, timeout: float) -> ConnectionPool[Any]:
    """A pool that is not open yet. Its connections are in autocommit mode."""
    return ConnectionPool(conninfo(dsn), configure=_configure, **_options(max_size, timeout))


def own_async_pool(
    dsn: str, max_size: int, timeout: float, kind: type[AsyncConnectionPool[Any]] = AsyncConnectionPool
) -> AsyncConnectionPool[Any]:
    return kind(conninfo(dsn), configure=_configure_async, **_options(max_size, timeout))


def open_pool(pool: ConnectionPool[Any]) -> None:
    """Connect once first: a pool would keep retrying without reporting why."""
    with translated_connect_errors():
        psycopg.connect(address_with_timeout(pool)).close()
    pool.open()


async def open_async_pool(pool: AsyncConnectionPool[Any]) -> None:
    with translated_connect_errors():
        await (await AsyncConnection.connect(address_with_timeout(pool))).close()
    await pool.open()


def address_with_timeout(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> str:
    """The pool's address, with the pool's timeout as connect_timeout unless it has one."""
    return make_conninfo(**{"connect_timeout": max(1, round(pool.timeout))} | parameters(str(pool.conninfo)))


def is_behind_a_pooler(connection: Connection[Any] | AsyncConnection[Any], backend_pid: int) -> bool:
    """A pooler tells its clients a process id that differs from that of the server process.

    Behind a pooler each transaction may run in another server session, so prepared statements and LISTEN are
    lost.
    """
    return connection.info.backend_pid != backend_pid


def _options(max_size: int, timeout: float) -> dict[str, Any]:
    return {
        "kwargs": {"autocommit": True, "fallback_application_name": "lonnymq"},
        "min_size": 0,
        "max_size": max_size,
        "timeout": timeout,
        "reconnect_timeout": timeout,  # else its pauses double without limit; the next call starts again
        "open": False,
        "name": "lonnymq",
    }


def _configure(connection: Connection[Any]) -> None:
    for backend_pid, isolation in connection.execute(SESSION_QUERY):
        if is_behind_a_pooler(connection, backend_pid):
            connection.prepare_threshold = None
        if isolation != READ_COMMITTED:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            connection.autocommit = False


async def _configure_async(connection: AsyncConnection[Any]) -> None:
    async for backend_pid, isolation in await connection.execute(SESSION_QUERY):
        if is_behind_a_pooler(connection, backend_pid):
            connection.prepare_threshold = None
        if isolation != READ_COMMITTED:
            await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
            await connection.set_autocommit(False)


@contextmanager
def translated_connect_errors() -> Iterator[None]:
    """Raise DatabaseUnreachable if a connection in the block cannot be opened."""
    try:
        yield
    except psycopg.OperationalError as error:
        hint = hint_to_connect(str(error))
        raise DatabaseUnreachable(f"could not connect: {error}", hint) from None


@contextmanager
def borrowed(pool: ConnectionPool[Any]) -> Iterator[Connection[Any]]:
    """A connection of the pool, not in a transaction yet."""
    block = CallerBlock()
    try:
        while _is_closed_by_server(connection := pool.getconn()):
            connection.close()
            pool.putconn(connection)  # the pool replaces it
        try:
            with connection, block:
                yield connection
        except ReadOnlyDatabase:
            connection.close()  # a new one may lead to the primary
            raise
        finally:
            pool.putconn(connection)
    except PoolClosed as error:
        raise _closed() from error
    except psycopg.Error as error:
        block.refuse(error)


@asynccontextmanager
async def _borrowed_async(pool: AsyncConnectionPool[Any]) -> AsyncIterator[AsyncConnection[Any]]:
    block = CallerBlock()
    try:
        while _is_closed_by_server(connection := await pool.getconn()):
            await connection.close()
            await pool.putconn(connection)
        try:
            async with connection:
                with block:
                    yield connection
        except ReadOnlyDatabase:
            await connection.close()
            raise
        finally:
            await pool.putconn(connection)
    except PoolClosed as error:
        raise _closed() from error
    except psycopg.Error as error:
        block.refuse(error)


def _is_closed_by_server(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Checked without a round trip: an idle connection is readable only if the server closed it.

    So after a restart most calls get a good connection at once, and cannot fail with an unknown outcome.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _closed() -> QueueClosed:
    return QueueClosed("the pool is not open", "open it before you use the queue")
