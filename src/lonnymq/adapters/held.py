"""Run a command on whatever the caller holds. Only the adapter of that driver is imported."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TypeVar

from lonnymq.errors import UnsuitableConnection
from lonnymq.statement import Command

Result = TypeVar("Result")

DRIVERS = ("psycopg", "asyncpg", "sqlalchemy", "django")
TAKEN = (
    "give a connection or cursor of psycopg 3, a connection of asyncpg, an engine, connection or session of "
    "SQLAlchemy, or Django's connection"
)


def run(held: object, schema: str, command: Command[Result]) -> Result:
    adapter = _adapter_of(held)
    if not isinstance(held, adapter.SYNC):
        raise UnsuitableConnection(
            f"{_name(held)} is asynchronous", "use an AsyncQueue with it, and await its calls"
        )
    result: Result = adapter.run(held, schema, command)
    return result


async def run_async(held: object, schema: str, command: Command[Result]) -> Result:
    adapter = _adapter_of(held)
    if not isinstance(held, adapter.ASYNC):
        raise UnsuitableConnection(f"{_name(held)} is not asynchronous", "use a Queue with it")
    result: Result = await adapter.run_async(held, schema, command)
    return result


def _adapter_of(held: object) -> ModuleType:
    for ancestor in type(held).__mro__:
        driver = ancestor.__module__.partition(".")[0]
        if driver in DRIVERS:
            adapter = importlib.import_module(f"lonnymq.adapters.{driver}")
            if isinstance(held, (*adapter.SYNC, *adapter.ASYNC)):
                return adapter
    raise UnsuitableConnection(f"{_name(held)} is nothing that a call can be made on", TAKEN)


def _name(held: object) -> str:
    return f"{type(held).__module__}.{type(held).__qualname__}"
