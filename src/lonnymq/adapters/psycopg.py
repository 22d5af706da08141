"""psycopg 3, sync and async. For a cursor, its connection is used, and the row factory stays as it is."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from lonnymq.adapters.array_text import as_text
from lonnymq.adapters.driver_errors import refuse_call
from lonnymq.statement import Command, Statement

Result = TypeVar("Result")

SYNC = (psycopg.Connection, psycopg.Cursor)
ASYNC = (psycopg.AsyncConnection, psycopg.AsyncCursor)
POOLS: tuple[type, ...] = ()


def run(
    target: psycopg.Connection[Any] | psycopg.Cursor[Any], schema: str, command: Command[Result]
) -> Result:
    connection = target.connection if isinstance(target, psycopg.Cursor) else target
    text, parameters = command.statement(schema)
    try:
        with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
            rows = cursor.execute(text.encode(), _with_array_texts(parameters)).fetchall()
    except psycopg.Error as error:
        refuse_call(error, schema, command.function, lambda: login(connection))
    return command.decode(rows)


async def run_async(
    target: psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any], schema: str, command: Command[Result]
) -> Result:
    connection = target.connection if isinstance(target, psycopg.AsyncCursor) else target
    text, parameters = command.statement(schema)
    try:
        async with psycopg.AsyncRawCursor(connection, row_factory=tuple_row) as cursor:
            await cursor.execute(text.encode(), _with_array_texts(parameters))
            rows = await cursor.fetchall()
    except psycopg.Error as error:
        refuse_call(error, schema, command.function, lambda: login(connection))
    return command.decode(rows)


def commits_each(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether each statement is its own transaction, and several can be sent at once."""
    return connection.autocommit and psycopg.Pipeline.is_supported()


def run_pair(
    connection: psycopg.Connection[Any], schema: str, first: Command[Any], second: Command[Result]
) -> Result:
    """Run both in one round trip, each in its own transaction."""
    try:
        with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
            with connection.pipeline():
                for text, parameters in _pair(schema, first, second):
                    cursor.execute(text.encode(), _with_array_texts(parameters))
            rows = cursor.fetchall()
    except psycopg.Error as error:
        refuse_call(error, schema, second.function, lambda: login(connection))
    return second.decode(rows)


async def run_pair_async(
    connection: psycopg.AsyncConnection[Any], schema: str, first: Command[Any], second: Command[Result]
) -> Result:
    try:
        async with psycopg.AsyncRawCursor(connection, row_factory=tuple_row) as cursor:
            async with connection.pipeline():
                for text, parameters in _pair(schema, first, second):
                    await cursor.execute(text.encode(), _with_array_texts(parameters))
            rows = await cursor.fetchall()
    except psycopg.Error as error:
        refuse_call(error, schema, second.function, lambda: login(connection))
    return second.decode(rows)


def _pair(schema: str, first: Command[Any], second: Command[Any]) -> list[Statement]:
    """The COMMIT separates the two transactions; Pipeline.sync() would wait for the first answer. If the
    first command fails, the server skips the second.
    """
    return [
        Statement("BEGIN", ()),
        first.statement(schema),
        Statement("COMMIT", ()),
        second.statement(schema),
    ]


def login(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> str | None:
    """The login, as the server reported it; None if a pooler does not pass it on."""
    return connection.info.parameter_status("session_authorization")


def _with_array_texts(parameters: tuple[Any, ...]) -> list[Any]:
    return [as_text(value) if isinstance(value, list) else value for value in parameters]
