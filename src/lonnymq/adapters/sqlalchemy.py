"""SQLAlchemy 2, sync and async. On a connection or session, a call is part of its transaction; on an engine,
each call is its own transaction.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, TextClause, bindparam, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.pool import NullPool, QueuePool
from sqlalchemy.types import NullType

from lonnymq.adapters.address import conninfo
from lonnymq.adapters.driver_errors import (
    refuse_call,
    with_translated_errors,
    with_translated_errors_async,
)
from lonnymq.errors import InvalidAddress
from lonnymq.statement import Command, Statement

Result = TypeVar("Result")

SYNC = (Engine, Connection, Session, scoped_session)
ASYNC = (AsyncEngine, AsyncConnection, AsyncSession, async_scoped_session)
POOLS = (Engine, AsyncEngine)
AFTER_FORK = "call engine.dispose(close=False) in the child process before you use the engine there"
READ_COMMITTED: dict[str, Any] = {"isolation_level": "READ COMMITTED"}  # a dequeue needs it


def run(
    target: Engine | Connection | Session | scoped_session[Session], schema: str, command: Command[Result]
) -> Result:
    if isinstance(target, Engine):
        with transaction(target) as connection:
            return run(connection, schema, command)
    try:
        rows = target.execute(_clause(command.statement(schema))).fetchall()
    except DBAPIError as error:
        refuse_call(error, schema, command.function, lambda: _login(target))
    return command.decode([tuple(row) for row in rows])


async def run_async(
    target: AsyncEngine | AsyncConnection | AsyncSession | async_scoped_session[AsyncSession],
    schema: str,
    command: Command[Result],
) -> Result:
    if isinstance(target, AsyncEngine):
        async with transaction_async(target) as connection:
            return await run_async(connection, schema, command)
    try:
        rows = (await target.execute(_clause(command.statement(schema)))).fetchall()
    except DBAPIError as error:
        refuse_call(error, schema, command.function, lambda: _login(target))
    return command.decode([tuple(row) for row in rows])


def _login(target: object) -> str | None:
    """The login in the URL of the engine."""
    bind: Any = target.get_bind() if hasattr(target, "get_bind") else target
    found: str | None = bind.engine.url.username
    return found


def address(engine: Engine | AsyncEngine) -> str | None:
    if not (engine.url.host or engine.url.database):
        return None  # it connects through a `creator` function, or with default settings
    try:
        return conninfo(engine.url.render_as_string(hide_password=False))
    except InvalidAddress:
        return None  # it has parameters that only its driver knows


def open_connections(engine: Engine | AsyncEngine) -> object | None:
    pool: Any = engine.pool
    if isinstance(pool, NullPool):
        return None
    is_empty = isinstance(pool, QueuePool) and pool.checkedin() + pool.checkedout() == 0
    return None if is_empty else pool


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    begin = engine.execution_options(**READ_COMMITTED).begin()
    with with_translated_errors(begin, (DBAPIError,)) as connection:
        yield connection


@asynccontextmanager
async def transaction_async(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    begin = engine.execution_options(**READ_COMMITTED).begin()
    async with with_translated_errors_async(begin, (DBAPIError, OSError)) as connection:
        yield connection


def _clause(statement: Statement) -> TextClause:
    """With untyped parameters: otherwise SQLAlchemy casts numbers to INTEGER for some drivers."""
    named = re.sub(r"CAST\(\$(\d+)", r"CAST(:p\1", statement.text.replace(":", r"\:"))
    values: list[Any] = [
        bindparam(f"p{number}", value, NullType())
        for number, value in enumerate(statement.parameters, start=1)
    ]
    return text(named).bindparams(*values)
