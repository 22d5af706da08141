"""psycopg's pools, sync and async: each call borrows a connection, and is a transaction of its own."""

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
from lonnymq.adapters.driver_errors import Lent
from lonnymq.errors import IS_IT_UP, DatabaseUnreachable, QueueClosed, ReadOnlyDatabase
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC = (ConnectionPool,)
ASYNC = (AsyncConnectionPool,)
LENDERS = (*SYNC, *ASYNC)
ASK = "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('default_transaction_isolation')"
READ_COMMITTED = "read committed"  # what a dequeue needs, whatever the database's default is


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
    with borrowed(pool) as connection:
        lent = Lent()
        try:
            with connection.transaction(), lent:
                yield connection
        except psycopg.Error as error:
            lent.refuse(error)


@asynccontextmanager
async def transaction_async(pool: AsyncConnectionPool[Any]) -> AsyncIterator[AsyncConnection[Any]]:
    async with _borrowed_async(pool) as connection:
        lent = Lent()
        try:
            async with connection.transaction():
                with lent:
                    yield connection
        except psycopg.Error as error:
            lent.refuse(error)


def address(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> str | None:
    if callable(pool.conninfo) or callable(pool.kwargs):
        return None  # another one each time
    return conninfo(pool.conninfo, **(pool.kwargs or {}))


def own_pool(dsn: str, max_size: int, timeout: float) -> ConnectionPool[Any]:
    """Not open yet. Its connections commit each call by themselves."""
    return ConnectionPool(conninfo(dsn), configure=_adjust, **_options(max_size, timeout))


def own_async_pool(
    dsn: str, max_size: int, timeout: float, kind: type[AsyncConnectionPool[Any]] = AsyncConnectionPool
) -> AsyncConnectionPool[Any]:
    return kind(conninfo(dsn), configure=_adjust_async, **_options(max_size, timeout))


def open_pool(pool: ConnectionPool[Any]) -> None:
    """Not before a first connection: a pool tries for long, and does not say why it fails."""
    with unreachable():
        psycopg.connect(_soon(pool)).close()
    pool.open()


async def open_async_pool(pool: AsyncConnectionPool[Any]) -> None:
    with unreachable():
        await (await AsyncConnection.connect(_soon(pool))).close()
    await pool.open()


def _soon(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> str:
    """Its address, not to be waited for longer than for the pool."""
    return make_conninfo(**{"connect_timeout": max(1, round(pool.timeout))} | parameters(str(pool.conninfo)))


def is_behind_a_pooler(connection: Connection[Any] | AsyncConnection[Any], backend_pid: int) -> bool:
    """A pooler makes up the process id that it tells its clients; the server knows its own.

    Transactions may then each have another server session: statements prepared in one, and LISTEN, are lost.
    """
    return connection.info.backend_pid != backend_pid


def _options(max_size: int, timeout: float) -> dict[str, Any]:
    return {
        "kwargs": {"autocommit": True, "fallback_application_name": "lonnymq"},
        "min_size": 0,
        "max_size": max_size,
        "timeout": timeout,
        "reconnect_timeout": timeout,  # its pauses double without end; a call that comes later begins anew
        "open": False,
        "name": "lonnymq",
    }


def _adjust(connection: Connection[Any]) -> None:
    for backend_pid, isolation in connection.execute(ASK):
        if is_behind_a_pooler(connection, backend_pid):
            connection.prepare_threshold = None
        if isolation != READ_COMMITTED:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            connection.autocommit = False


async def _adjust_async(connection: AsyncConnection[Any]) -> None:
    async for backend_pid, isolation in await connection.execute(ASK):
        if is_behind_a_pooler(connection, backend_pid):
            connection.prepare_threshold = None
        if isolation != READ_COMMITTED:
            await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
            await connection.set_autocommit(False)


@contextmanager
def unreachable() -> Iterator[None]:
    """Raises DatabaseUnreachable for a connection that cannot be opened."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise DatabaseUnreachable(f"could not connect: {error}", IS_IT_UP) from None


@contextmanager
def borrowed(pool: ConnectionPool[Any]) -> Iterator[Connection[Any]]:
    """A connection of the pool's, in no transaction yet."""
    lent = Lent()
    try:
        while _is_ended(connection := pool.getconn()):
            connection.close()
            pool.putconn(connection)  # the pool replaces it
        try:
            with connection, lent:
                yield connection
        except ReadOnlyDatabase:
            connection.close()  # the next one may lead to the primary
            raise
        finally:
            pool.putconn(connection)
    except PoolClosed as error:
        raise _closed() from error
    except psycopg.Error as error:
        lent.refuse(error)


@asynccontextmanager
async def _borrowed_async(pool: AsyncConnectionPool[Any]) -> AsyncIterator[AsyncConnection[Any]]:
    lent = Lent()
    try:
        while _is_ended(connection := await pool.getconn()):
            await connection.close()
            await pool.putconn(connection)
        try:
            async with connection:
                with lent:
                    yield connection
        except ReadOnlyDatabase:
            await connection.close()
            raise
        finally:
            await pool.putconn(connection)
    except PoolClosed as error:
        raise _closed() from error
    except psycopg.Error as error:
        lent.refuse(error)


def _is_ended(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Without asking the server: there is nothing to be read on an idle connection, unless it was ended.

    So most calls after a restart are made on a good connection at once, and their outcome is never in doubt.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _closed() -> QueueClosed:
    return QueueClosed("the pool is not open", "open it before the queue is used")
