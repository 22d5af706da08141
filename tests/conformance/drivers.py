"""The adapters, each as something that runs a command on a connection of its driver's."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import psycopg

from lonnymq.adapters import psycopg as psycopg_adapter
from lonnymq.statement import Command

SCHEMA = "lonnymq"
Result = TypeVar("Result")


class Run(Protocol):
    def __call__(self, command: Command[Result]) -> Result: ...


@contextmanager
def psycopg_sync(dsn: str) -> Iterator[Run]:
    with psycopg.connect(dsn, autocommit=True) as conn:

        def run(command: Command[Result]) -> Result:
            return psycopg_adapter.run(conn, SCHEMA, command)

        yield run


@contextmanager
def psycopg_cursor(dsn: str) -> Iterator[Run]:
    with psycopg.connect(dsn, autocommit=True) as conn, conn.cursor() as cursor:

        def run(command: Command[Result]) -> Result:
            return psycopg_adapter.run(cursor, SCHEMA, command)

        yield run


@contextmanager
def psycopg_async(dsn: str) -> Iterator[Run]:
    with asyncio.Runner() as runner:
        conn = runner.run(psycopg.AsyncConnection.connect(dsn, autocommit=True))

        def run(command: Command[Result]) -> Result:
            return runner.run(psycopg_adapter.run_async(conn, SCHEMA, command))

        try:
            yield run
        finally:
            runner.run(conn.close())


DRIVERS: dict[str, Callable[[str], Any]] = {
    "psycopg": psycopg_sync,
    "psycopg cursor": psycopg_cursor,
    "psycopg async": psycopg_async,
}
