"""asyncpg: a connection, or one that a pool lent. A pool runs each call in a transaction of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg
from asyncpg.pool import Pool, PoolConnectionProxy

from lonnymq.adapters.refusals import translated
from lonnymq.errors import DatabaseUnreachable
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC: tuple[type, ...] = ()
ASYNC = (asyncpg.Connection, PoolConnectionProxy, Pool)
LENDERS = (Pool,)


async def run_async(
    held: asyncpg.Connection[Any] | Pool[Any], schema: str, command: Command[Result]
) -> Result:
    if isinstance(held, Pool):
        async with _borrowed(held) as own:
            return await run_async(own, schema, command)
    text, parameters = command.statement(schema)
    try:
        rows = await held.fetch(text, *parameters)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise translated(error) or error from error
    return command.decode([tuple(row) for row in rows])


@asynccontextmanager
async def transaction_async(pool: Pool[Any]) -> AsyncIterator[asyncpg.Connection[Any]]:
    async with _borrowed(pool) as connection:
        try:
            async with connection.transaction():
                yield connection
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise translated(error) or error from error


@asynccontextmanager
async def _borrowed(pool: Pool[Any]) -> AsyncIterator[asyncpg.Connection[Any]]:
    try:
        connection = await pool.acquire()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise DatabaseUnreachable(
            f"no connection was to be had: {error}", "check the pool's address and that it is open"
        ) from error
    try:
        yield connection
    finally:
        await pool.release(connection)
