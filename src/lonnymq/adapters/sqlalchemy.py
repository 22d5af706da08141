"""SQLAlchemy 2, sync and async: a connection, or a session, whose transaction the call joins.

An engine runs it in a transaction of its own.
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
from sqlalchemy.types import NullType

from lonnymq.adapters.address import conninfo
from lonnymq.adapters.driver_errors import Lent, refuse_call
from lonnymq.errors import InvalidAddress
from lonnymq.statement import Command, Statement

Result = TypeVar("Result")

SYNC = (Engine, Connection, Session, scoped_session)
ASYNC = (AsyncEngine, AsyncConnection, AsyncSession, async_scoped_session)
LENDERS = (Engine, AsyncEngine)
READ_COMMITTED: dict[str, Any] = {"isolation_level": "READ COMMITTED"}  # what a dequeue needs


def run(
    held: Engine | Connection | Session | scoped_session[Session], schema: str, command: Command[Result]
) -> Result:
    if isinstance(held, Engine):
        with transaction(held) as own:
            return run(own, schema, command)
    try:
        rows = held.execute(_clause(command.statement(schema))).fetchall()
    except DBAPIError as error:
        refuse_call(error, schema, command.function, lambda: _login(held))
    return command.decode([tuple(row) for row in rows])


async def run_async(
    held: AsyncEngine | AsyncConnection | AsyncSession | async_scoped_session[AsyncSession],
    schema: str,
    command: Command[Result],
) -> Result:
    if isinstance(held, AsyncEngine):
        async with transaction_async(held) as own:
            return await run_async(own, schema, command)
    try:
        rows = (await held.execute(_clause(command.statement(schema)))).fetchall()
    except DBAPIError as error:
        refuse_call(error, schema, command.function, lambda: _login(held))
    return command.decode([tuple(row) for row in rows])


def _login(held: object) -> str | None:
    """Of a connection or session, as its engine's address says."""
    bind: Any = held.get_bind() if hasattr(held, "get_bind") else held
    found: str | None = bind.engine.url.username
    return found


def address(engine: Engine | AsyncEngine) -> str | None:
    if not (engine.url.host or engine.url.database):
        return None  # it connects in a way of its own
    try:
        return conninfo(engine.url.render_as_string(hide_password=False))
    except InvalidAddress:
        return None  # it has parameters of its driver's


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    lent = Lent()
    try:
        with engine.execution_options(**READ_COMMITTED).begin() as connection, lent:
            yield connection
    except DBAPIError as error:
        lent.refuse(error)


@asynccontextmanager
async def transaction_async(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    lent = Lent()
    try:
        async with engine.execution_options(**READ_COMMITTED).begin() as connection:
            with lent:
                yield connection
    except (DBAPIError, OSError) as error:
        lent.refuse(error)


def _clause(statement: Statement) -> TextClause:
    """Parameters without a type: else SQLAlchemy casts a number to INTEGER for some drivers."""
    named = re.sub(r"CAST\(\$(\d+)", r"CAST(:p\1", statement.text.replace(":", r"\:"))
    values: list[Any] = [
        bindparam(f"p{number}", value, NullType())
        for number, value in enumerate(statement.parameters, start=1)
    ]
    return text(named).bindparams(*values)
