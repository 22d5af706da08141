"""asyncpg: a connection, or one that a pool lent."""

from __future__ import annotations

from typing import Any, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from lonnymq.adapters.refusals import translated
from lonnymq.statement import Command

Result = TypeVar("Result")

SYNC: tuple[type, ...] = ()
ASYNC = (asyncpg.Connection, PoolConnectionProxy)


async def run_async(held: asyncpg.Connection[Any], schema: str, command: Command[Result]) -> Result:
    text, parameters = command.statement(schema)
    try:
        rows = await held.fetch(text, *parameters)
    except asyncpg.PostgresError as error:
        raise translated(error) or error from error
    return command.decode([tuple(row) for row in rows])
