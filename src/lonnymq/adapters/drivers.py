"""Run a command on whatever the caller holds. Only the adapter of that driver is imported."""

from __future__ import annotations

import importlib
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import ModuleType
from typing import Any, TypeVar

from lonnymq.adapters import invalid_values
from lonnymq.errors import LonnyMQError, UnsuitableConnection
from lonnymq.statement import Command

Result = TypeVar("Result")

DRIVERS = ("psycopg", "psycopg_pool", "asyncpg", "sqlalchemy", "django")
TAKEN = (
    "give a connection or cursor of psycopg 3, a connection of asyncpg, a connection or session of "
    "SQLAlchemy, or Django's connection"
)
LENDING = "give a DSN, a pool of psycopg's or asyncpg's, or an engine of SQLAlchemy's"


def run(held: object, schema: str, command: Command[Result]) -> Result:
    adapter = _adapter_of(held)
    if not isinstance(held, adapter.SYNC):
        raise UnsuitableConnection(
            f"{_name(held)} is asynchronous", "use an AsyncQueue with it, and await its calls"
        )
    invalid_values.check(command)
    try:
        result: Result = adapter.run(held, schema, command)
    except Exception as error:
        _refuse_values(command, error)
        raise
    return result


async def run_async(held: object, schema: str, command: Command[Result]) -> Result:
    adapter = _adapter_of(held)
    if not isinstance(held, adapter.ASYNC):
        raise UnsuitableConnection(f"{_name(held)} is not asynchronous", "use a Queue with it")
    invalid_values.check(command)
    try:
        result: Result = await adapter.run_async(held, schema, command)
    except Exception as error:
        _refuse_values(command, error)
        raise
    return result


def run_pair(lender: object, schema: str, first: Command[Any], second: Command[Result]) -> Result:
    """Each in a transaction of its own, and both in one round trip if the adapter can do that."""
    invalid_values.check(second)
    pairing = getattr(_adapter_of(lender), "run_pair", None)
    if pairing is None:
        run(lender, schema, first)
        return run(lender, schema, second)
    try:
        result: Result = pairing(lender, schema, first, second)
    except Exception as error:
        _refuse_values(second, error)
        raise
    return result


async def run_pair_async(lender: object, schema: str, first: Command[Any], second: Command[Result]) -> Result:
    invalid_values.check(second)
    pairing = getattr(_adapter_of(lender), "run_pair_async", None)
    if pairing is None:
        await run_async(lender, schema, first)
        return await run_async(lender, schema, second)
    try:
        result: Result = await pairing(lender, schema, first, second)
    except Exception as error:
        _refuse_values(second, error)
        raise
    return result


def _refuse_values(command: Command[Result], error: Exception) -> None:
    if not isinstance(error, LonnyMQError) and (refusal := invalid_values.refusal(command, error)):
        raise refusal from error


def transaction(lender: object) -> AbstractContextManager[object]:
    """A connection of the pool's or engine's, in a transaction that ends with the block."""
    begun: AbstractContextManager[object] = _adapter_of(lender).transaction(lender)
    return begun


def transaction_async(lender: object) -> AbstractAsyncContextManager[object]:
    begun: AbstractAsyncContextManager[object] = _adapter_of(lender).transaction_async(lender)
    return begun


def address(lender: object) -> str | None:
    """Where it connects to, if it tells."""
    found: str | None = _adapter_of(lender).address(lender)
    return found


def lends(held: object) -> bool:
    """Whether it is a pool or an engine."""
    return isinstance(held, _adapter_of(held).LENDERS)


def check_has_transaction(held: object) -> None:
    """Raises UnsuitableConnection for what would commit by itself."""
    if lends(held):
        raise UnsuitableConnection(
            f"{_name(held)} has no transaction that a call could be part of",
            "give the connection or session that your transaction is on, or no conn= at all",
        )


def check_lends(lender: object, *, is_async: bool) -> None:
    """Raises UnsuitableConnection unless it is a pool or an engine, of the right kind."""
    adapter = _adapter_of(lender, LENDING)
    if not isinstance(lender, adapter.LENDERS):
        raise UnsuitableConnection(
            f"{_name(lender)} is one connection, and a queue needs one of its own for each call",
            f"{LENDING}; and what you hold to the queue's calls, as conn=",
        )
    if isinstance(lender, adapter.ASYNC) is not is_async:
        raise UnsuitableConnection(
            f"{_name(lender)} is {'not ' if is_async else ''}asynchronous",
            f"use {'a Queue' if is_async else 'an AsyncQueue'} with it",
        )


def _adapter_of(held: object, hint: str = TAKEN) -> ModuleType:
    for ancestor in type(held).__mro__:
        driver = ancestor.__module__.partition(".")[0]
        if driver in DRIVERS:
            adapter = importlib.import_module(f"lonnymq.adapters.{driver}")
            if isinstance(held, (*adapter.SYNC, *adapter.ASYNC)):
                return adapter
    raise UnsuitableConnection(f"{_name(held)} is nothing that a call can be made on", hint)


def _name(held: object) -> str:
    return f"{type(held).__module__}.{type(held).__qualname__}"
