"""asyncpg: a connection, or one that a pool lent. A pool runs each call in a transaction of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg
from asyncpg.pool import Pool, PoolConnectionProxy

from lonnymq.adapters.driver_errors import Lent, refuse_call
from lonnymq.errors import ConnectionDropped
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC: tuple[type, ...] = ()
ASYNC = (asyncpg.Connection, PoolConnectionProxy, Pool)
LENDERS = (Pool,)
FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


async def run_async(
    held: asyncpg.Connection[Any] | Pool[Any], schema: str, command: Command[Result]
) -> Result:
    if isinstance(held, Pool):
        try:
            async with _borrowed(held) as own:
                return await run_async(own, schema, command)
        except ConnectionDropped:
            await held.expire_connections()  # those that are idle may be gone as well
            raise
    text, parameters = command.statement(schema)
    try:
        rows = await held.fetch(text, *parameters)
    except FAILURES as error:
        refuse_call(error, schema, command.function, lambda: _login(held))
    return command.decode([tuple(row) for row in rows])


def _login(connection: asyncpg.Connection[Any]) -> str | None:
    found = getattr(connection.get_settings(), "session_authorization", None)
    return None if found is None else str(found)


def address(pool: Pool[Any]) -> None:  # noqa: ARG001
    """It does not tell."""
    return


@asynccontextmanager
async def transaction_async(pool: Pool[Any]) -> AsyncIterator[asyncpg.Connection[Any]]:
    async with _borrowed(pool) as connection:
        lent = Lent()
        try:
            async with connection.transaction():
                with lent:
                    yield connection
        except FAILURES as error:
            lent.refuse(error)


@asynccontextmanager
async def _borrowed(pool: Pool[Any]) -> AsyncIterator[asyncpg.Connection[Any]]:
    lent = Lent()
    try:
        connection = await _acquired(pool)
        try:
            with lent:
                yield connection
        finally:
            await pool.release(connection)
    except FAILURES as error:
        lent.refuse(error)


async def _acquired(pool: Pool[Any]) -> asyncpg.Connection[Any]:
    """Some idle connections are found to be gone only when they are asked for."""
    for _ in range(pool.get_size()):
        try:
            return await pool.acquire()
        except (asyncpg.InternalClientError, asyncpg.PostgresConnectionError):
            await pool.expire_connections()
    return await pool.acquire()
