"""asyncpg: connections, and pools. On a pool, each call is its own transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg
from asyncpg.pool import Pool, PoolConnectionProxy

from lonnymq.adapters.driver_errors import CallerBlock, refuse_call, with_translated_errors_async
from lonnymq.errors import ConnectionDropped
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC: tuple[type, ...] = ()
ASYNC = (asyncpg.Connection, PoolConnectionProxy, Pool)
POOLS = (Pool,)
AFTER_FORK = "make the pool and the queue in the child process"
FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


async def run_async(
    target: asyncpg.Connection[Any] | Pool[Any], schema: str, command: Command[Result]
) -> Result:
    if isinstance(target, Pool):
        try:
            async with _borrowed(target) as connection:
                return await run_async(connection, schema, command)
        except ConnectionDropped:
            await target.expire_connections()  # the idle ones are probably broken too
            raise
    text, parameters = command.statement(schema)
    try:
        rows = await target.fetch(text, *parameters)
    except FAILURES as error:
        refuse_call(error, schema, command.function, lambda: _login(target))
    return command.decode([tuple(row) for row in rows])


def _login(connection: asyncpg.Connection[Any]) -> str | None:
    found = getattr(connection.get_settings(), "session_authorization", None)
    return None if found is None else str(found)


def address(pool: Pool[Any]) -> None:  # noqa: ARG001
    """asyncpg does not expose the address of a pool."""
    return


def open_connections(pool: Pool[Any]) -> object | None:
    return pool if pool.get_size() else None


@asynccontextmanager
async def transaction_async(pool: Pool[Any]) -> AsyncIterator[asyncpg.Connection[Any]]:
    async with (
        _borrowed(pool) as connection,
        with_translated_errors_async(connection.transaction(), FAILURES),
    ):
        yield connection


@asynccontextmanager
async def _borrowed(pool: Pool[Any]) -> AsyncIterator[asyncpg.Connection[Any]]:
    block = CallerBlock()
    try:
        connection = await _acquired(pool)
        try:
            with block:
                yield connection
        finally:
            await pool.release(connection)
    except FAILURES as error:
        block.refuse(error)


async def _acquired(pool: Pool[Any]) -> asyncpg.Connection[Any]:
    """The pool notices that an idle connection is broken only when it is acquired, so try again."""
    for _ in range(pool.get_size()):
        try:
            return await pool.acquire()
        except (asyncpg.InternalClientError, asyncpg.PostgresConnectionError):
            await pool.expire_connections()
    return await pool.acquire()
