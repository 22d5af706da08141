"""The adapters, each as something that runs a command on a connection of its driver's."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import asyncpg
import django
import psycopg
from django.conf import settings
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from lonnymq.adapters import drivers as adapters
from lonnymq.statement import Command

SCHEMA = "lonnymq"
Result = TypeVar("Result")
settings.configure(USE_TZ=True)
django.setup()
DJANGO_DEFAULTS: dict[str, Any] = {
    "ENGINE": "django.db.backends.postgresql",
    "ATOMIC_REQUESTS": False,
    "AUTOCOMMIT": True,
    "CONN_HEALTH_CHECKS": False,
    "CONN_MAX_AGE": 0,
    "OPTIONS": {},
    "TIME_ZONE": None,
}


class Run(Protocol):
    def __call__(self, command: Command[Result]) -> Result: ...


@contextmanager
def psycopg_sync(dsn: str) -> Iterator[Run]:
    with psycopg.connect(dsn, autocommit=True) as conn:

        def run(command: Command[Result]) -> Result:
            return adapters.run(conn, SCHEMA, command)

        yield run


@contextmanager
def psycopg_cursor(dsn: str) -> Iterator[Run]:
    with psycopg.connect(dsn, autocommit=True) as conn, conn.cursor() as cursor:

        def run(command: Command[Result]) -> Result:
            return adapters.run(cursor, SCHEMA, command)

        yield run


@contextmanager
def psycopg_async(dsn: str) -> Iterator[Run]:
    with asyncio.Runner() as runner:
        conn = runner.run(psycopg.AsyncConnection.connect(dsn, autocommit=True))

        def run(command: Command[Result]) -> Result:
            return runner.run(adapters.run_async(conn, SCHEMA, command))

        try:
            yield run
        finally:
            runner.run(conn.close())


@contextmanager
def asyncpg_connection(dsn: str, *, has_codecs: bool = False) -> Iterator[Run]:
    """With codecs for JSON, as many projects have them."""
    with asyncio.Runner() as runner:
        conn = runner.run(asyncpg.connect(dsn))
        for name in ("json", "jsonb") if has_codecs else ():
            runner.run(conn.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"))

        def run(command: Command[Result]) -> Result:
            return runner.run(adapters.run_async(conn, SCHEMA, command))

        try:
            yield run
        finally:
            runner.run(conn.close())


def url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


@contextmanager
def sqlalchemy_sync(dsn: str, hold: Callable[[Engine], Any]) -> Iterator[Run]:
    """What is not an engine commits after each call, as its owner would."""
    engine = create_engine(url(dsn, "psycopg"))
    held = hold(engine)

    def run(command: Command[Result]) -> Result:
        try:
            return adapters.run(held, SCHEMA, command)
        finally:
            if held is not engine:
                held.commit()

    try:
        yield run
    finally:
        if held is not engine:
            held.close()
        engine.dispose()


@contextmanager
def sqlalchemy_async(dsn: str, driver: str, hold: Callable[[AsyncEngine], Any]) -> Iterator[Run]:
    with asyncio.Runner() as runner:
        engine = create_async_engine(url(dsn, driver))
        held = runner.run(hold(engine))

        async def call(command: Command[Result]) -> Result:
            try:
                return await adapters.run_async(held, SCHEMA, command)
            finally:
                if held is not engine:
                    await held.commit()

        def run(command: Command[Result]) -> Result:
            return runner.run(call(command))

        async def end() -> None:
            if held is not engine:
                await held.close()
            await engine.dispose()

        try:
            yield run
        finally:
            runner.run(end())


async def itself(engine: AsyncEngine) -> AsyncEngine:
    return engine


async def connection_of(engine: AsyncEngine) -> AsyncConnection:
    return await engine.connect()


async def session_on(engine: AsyncEngine) -> AsyncSession:
    return AsyncSession(engine)


def django_wrapper(dsn: str) -> DatabaseWrapper:
    found = conninfo_to_dict(dsn)
    return DatabaseWrapper(
        {
            **DJANGO_DEFAULTS,
            "NAME": found["dbname"],
            "USER": found["user"],
            "PASSWORD": found.get("password", ""),
            "HOST": found["host"],
            "PORT": found["port"],
        }
    )


@contextmanager
def django_connection(dsn: str) -> Iterator[Run]:
    conn = django_wrapper(dsn)

    def run(command: Command[Result]) -> Result:
        return adapters.run(conn, SCHEMA, command)

    try:
        yield run
    finally:
        conn.close()


DRIVERS: dict[str, Callable[[str], Any]] = {
    "psycopg": psycopg_sync,
    "psycopg cursor": psycopg_cursor,
    "psycopg async": psycopg_async,
    "asyncpg": asyncpg_connection,
    "asyncpg with JSON codecs": partial(asyncpg_connection, has_codecs=True),
    "SQLAlchemy engine": partial(sqlalchemy_sync, hold=lambda engine: engine),
    "SQLAlchemy connection": partial(sqlalchemy_sync, hold=Engine.connect),
    "SQLAlchemy session": partial(sqlalchemy_sync, hold=Session),
    "SQLAlchemy async engine, asyncpg": partial(sqlalchemy_async, driver="asyncpg", hold=itself),
    "SQLAlchemy async connection, psycopg": partial(sqlalchemy_async, driver="psycopg", hold=connection_of),
    "SQLAlchemy async connection, asyncpg": partial(sqlalchemy_async, driver="asyncpg", hold=connection_of),
    "SQLAlchemy async session, asyncpg": partial(sqlalchemy_async, driver="asyncpg", hold=session_on),
    "Django": django_connection,
}
