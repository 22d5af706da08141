"""Runs a command on the caller's connection, session, pool or engine, with the adapter of its driver. No
other adapter is imported.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import ModuleType
from typing import Any, TypeVar

from lonnymq.adapters import invalid_values
from lonnymq.errors import LonnyMQError, UnsuitableConnection, UsedAfterFork
from lonnymq.statement import Command

Result = TypeVar("Result")

DRIVERS = ("psycopg", "psycopg_pool", "psycopg2", "asyncpg", "sqlalchemy", "django")
CONNECTIONS = (
    "give a connection or cursor of psycopg or psycopg2, an asyncpg connection, a SQLAlchemy connection or "
    "session, or Django's connection"
)
POOLS = "give a DSN, a psycopg or asyncpg pool, or a SQLAlchemy engine"


def run(target: object, schema: str, command: Command[Result]) -> Result:
    adapter = _adapter_of(target)
    if not isinstance(target, adapter.SYNC):
        raise UnsuitableConnection(
            f"{_name(target)} is asynchronous", "use an AsyncQueue, or a task's enqueue_async, with it"
        )
    invalid_values.check(command)
    try:
        result: Result = adapter.run(target, schema, command)
    except Exception as error:
        _refuse_values(command, error)
        raise
    return result


async def run_async(target: object, schema: str, command: Command[Result]) -> Result:
    adapter = _adapter_of(target)
    if not isinstance(target, adapter.ASYNC):
        raise UnsuitableConnection(
            f"{_name(target)} is not asynchronous", "use a Queue, or a task's enqueue, with it"
        )
    invalid_values.check(command)
    try:
        result: Result = await adapter.run_async(target, schema, command)
    except Exception as error:
        _refuse_values(command, error)
        raise
    return result


def run_pair(pool: object, schema: str, first: Command[Any], second: Command[Result]) -> Result:
    """Run two commands, each in its own transaction, and both in one round trip if the adapter can."""
    invalid_values.check(second)
    pair_runner = getattr(_adapter_of(pool), "run_pair", None)
    if pair_runner is None:
        run(pool, schema, first)
        return run(pool, schema, second)
    try:
        result: Result = pair_runner(pool, schema, first, second)
    except Exception as error:
        _refuse_values(second, error)
        raise
    return result


async def run_pair_async(pool: object, schema: str, first: Command[Any], second: Command[Result]) -> Result:
    invalid_values.check(second)
    pair_runner = getattr(_adapter_of(pool), "run_pair_async", None)
    if pair_runner is None:
        await run_async(pool, schema, first)
        return await run_async(pool, schema, second)
    try:
        result: Result = await pair_runner(pool, schema, first, second)
    except Exception as error:
        _refuse_values(second, error)
        raise
    return result


def _refuse_values(command: Command[Result], error: Exception) -> None:
    if not isinstance(error, LonnyMQError) and (refusal := invalid_values.refusal(command, error)):
        raise refusal from error


def transaction(pool: object) -> AbstractContextManager[object]:
    """A connection of the pool or engine, in a transaction that lasts for the block."""
    context: AbstractContextManager[object] = _adapter_of(pool).transaction(pool)
    return context


def transaction_async(pool: object) -> AbstractAsyncContextManager[object]:
    context: AbstractAsyncContextManager[object] = _adapter_of(pool).transaction_async(pool)
    return context


def address(pool: object) -> str | None:
    """The address that the pool or engine connects to, if it exposes that."""
    found: str | None = _adapter_of(pool).address(pool)
    return found


def open_connections(pool: object) -> object | None:
    """The part of the pool or engine that holds open connections, if it has any. It is another object once
    they have been replaced.
    """
    found: object | None = _adapter_of(pool).open_connections(pool)
    return found


def used_after_fork(pool: object) -> UsedAfterFork:
    return UsedAfterFork(
        f"{_name(pool)} was opened before this process was forked, so its connections are the parent's",
        _adapter_of(pool).AFTER_FORK,
    )


def is_pool(target: object) -> bool:
    """Whether the object is a pool or an engine."""
    return isinstance(target, _adapter_of(target).POOLS)


def check_has_transaction(target: object) -> None:
    """Raise UnsuitableConnection for a pool or engine, which would commit by itself."""
    if is_pool(target):
        raise UnsuitableConnection(
            f"{_name(target)} is a pool, so the call cannot be part of your transaction",
            "give the connection or session of your transaction as conn=, or leave conn= out",
        )


def check_is_pool(pool: object, *, is_async: bool) -> None:
    """Raise UnsuitableConnection unless it is a pool or an engine, asynchronous or not as required."""
    adapter = _adapter_of(pool, POOLS)
    if not isinstance(pool, adapter.POOLS):
        raise UnsuitableConnection(
            f"{_name(pool)} is a single connection, and a queue needs a pool of them",
            f"{POOLS}; give your connection to the queue's calls as conn=",
        )
    if isinstance(pool, adapter.ASYNC) is not is_async:
        raise UnsuitableConnection(
            f"{_name(pool)} is {'not ' if is_async else ''}asynchronous",
            f"use {'a Queue' if is_async else 'an AsyncQueue'} with it",
        )


def _adapter_of(target: object, hint: str = CONNECTIONS) -> ModuleType:
    for ancestor in type(target).__mro__:
        driver = ancestor.__module__.partition(".")[0]
        if driver in DRIVERS:
            adapter = importlib.import_module(f"lonnymq.adapters.{driver}")
            if isinstance(target, (*adapter.SYNC, *adapter.ASYNC)):
                return adapter
    raise UnsuitableConnection(f"{_name(target)} is not a connection that LonnyMQ supports", hint)


def _name(target: object) -> str:
    return f"{type(target).__module__}.{type(target).__qualname__}"
