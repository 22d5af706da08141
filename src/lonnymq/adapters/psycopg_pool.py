"""psycopg's pools, sync and async: each call borrows a connection, and is a transaction of its own."""

from __future__ import annotations

import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed

from lonnymq.adapters import psycopg as adapter
from lonnymq.adapters.refusals import Lent
from lonnymq.errors import UnsuitableConnection
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC = (ConnectionPool,)
ASYNC = (AsyncConnectionPool,)
LENDERS = (*SYNC, *ASYNC)
ASK_PID = "SELECT pg_catalog.pg_backend_pid()"


def run(pool: ConnectionPool[Any], schema: str, command: Command[Result]) -> Result:
    with _borrowed(pool) as connection:
        return adapter.run(connection, schema, command)


async def run_async(pool: AsyncConnectionPool[Any], schema: str, command: Command[Result]) -> Result:
    async with _borrowed_async(pool) as connection:
        return await adapter.run_async(connection, schema, command)


@contextmanager
def transaction(pool: ConnectionPool[Any]) -> Iterator[Connection[Any]]:
    with _borrowed(pool) as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def transaction_async(pool: AsyncConnectionPool[Any]) -> AsyncIterator[AsyncConnection[Any]]:
    async with _borrowed_async(pool) as connection, connection.transaction():
        yield connection


def own_pool(conninfo: str, max_size: int, timeout: float) -> ConnectionPool[Any]:
    """Not open yet. Its connections commit each call by themselves."""
    return ConnectionPool(
        conninfo, **_options(max_size, timeout), configure=_look_for_a_pooler, check=_check_is_alive
    )


def own_async_pool(conninfo: str, max_size: int, timeout: float) -> AsyncConnectionPool[Any]:
    return AsyncConnectionPool(
        conninfo,
        **_options(max_size, timeout),
        configure=_look_for_a_pooler_async,
        check=_check_is_alive_async,
    )


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
        "open": False,
        "name": "lonnymq",
    }


def _look_for_a_pooler(connection: Connection[Any]) -> None:
    for (backend_pid,) in connection.execute(ASK_PID):
        _adjust(connection, backend_pid)


async def _look_for_a_pooler_async(connection: AsyncConnection[Any]) -> None:
    async for (backend_pid,) in await connection.execute(ASK_PID):
        _adjust(connection, backend_pid)


def _adjust(connection: Connection[Any] | AsyncConnection[Any], backend_pid: int) -> None:
    if is_behind_a_pooler(connection, backend_pid):
        connection.prepare_threshold = None


def _check_is_alive(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    """Without asking the server: an idle connection has nothing to be read, unless the server ended it.

    So most calls after a restart are made on a good connection at once, and their outcome is never in doubt.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        connection.pgconn.consume_input()
        if connection.pgconn.is_busy() or poll.poll(0):
            raise psycopg.OperationalError("the server has ended the connection")


async def _check_is_alive_async(connection: AsyncConnection[Any]) -> None:
    _check_is_alive(connection)


@contextmanager
def _borrowed(pool: ConnectionPool[Any]) -> Iterator[Connection[Any]]:
    lent = Lent()
    try:
        with pool.connection() as connection, lent:
            yield connection
    except PoolClosed as error:
        raise _closed(error) from error
    except psycopg.Error as error:
        lent.refuse(error)


@asynccontextmanager
async def _borrowed_async(pool: AsyncConnectionPool[Any]) -> AsyncIterator[AsyncConnection[Any]]:
    lent = Lent()
    try:
        async with pool.connection() as connection:
            with lent:
                yield connection
    except PoolClosed as error:
        raise _closed(error) from error
    except psycopg.Error as error:
        lent.refuse(error)


def _closed(error: PoolClosed) -> UnsuitableConnection:
    return UnsuitableConnection(f"the pool is not open: {error}", "open it first, or make a new queue")
