"""For each driver, a way to run commands through its adapter on a new connection."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import asyncpg
import django
import psycopg
import psycopg2
from django.conf import settings
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg.conninfo import conninfo_to_dict
from psycopg2.extensions import new_type, register_type
from psycopg2.extras import RealDictCursor
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
    """With `has_codecs`, JSON is decoded by the connection, as many projects set it up."""
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


@contextmanager
def psycopg2_cursor(dsn: str) -> Iterator[Run]:
    """With adapters that are not psycopg2's own, as some projects have them: they must not matter."""
    conn = psycopg2.connect(dsn, cursor_factory=RealDictCursor)
    conn.autocommit = True
    register_type(new_type((20, 23, 25, 3802), "as text", lambda value, _: value), conn)

    def run(command: Command[Result]) -> Result:
        return adapters.run(conn.cursor(), SCHEMA, command)

    try:
        yield run
    finally:
        conn.close()


def url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


@contextmanager
def sqlalchemy_sync(dsn: str, open_on: Callable[[Engine], Any], driver: str = "psycopg") -> Iterator[Run]:
    """A connection or session commits after each call, as its owner would; an engine commits by itself."""
    engine = create_engine(url(dsn, driver))
    target = open_on(engine)

    def run(command: Command[Result]) -> Result:
        try:
            return adapters.run(target, SCHEMA, command)
        finally:
            if target is not engine:
                target.commit()

    try:
        yield run
    finally:
        if target is not engine:
            target.close()
        engine.dispose()


@contextmanager
def sqlalchemy_async(dsn: str, driver: str, open_on: Callable[[AsyncEngine], Any]) -> Iterator[Run]:
    with asyncio.Runner() as runner:
        engine = create_async_engine(url(dsn, driver))
        target = runner.run(open_on(engine))

        async def call(command: Command[Result]) -> Result:
            try:
                return await adapters.run_async(target, SCHEMA, command)
            finally:
                if target is not engine:
                    await target.commit()

        def run(command: Command[Result]) -> Result:
            return runner.run(call(command))

        async def close() -> None:
            if target is not engine:
                await target.close()
            await engine.dispose()

        try:
            yield run
        finally:
            runner.run(close())


async def engine_unchanged(engine: AsyncEngine) -> AsyncEngine:
    return engine


async def connection_of(engine: AsyncEngine) -> AsyncConnection:
    return await engine.connect()


async def session_of(engine: AsyncEngine) -> AsyncSession:
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
    "psycopg2 cursor": psycopg2_cursor,
    "asyncpg": asyncpg_connection,
    "asyncpg with JSON codecs": partial(asyncpg_connection, has_codecs=True),
    "SQLAlchemy engine": partial(sqlalchemy_sync, open_on=lambda engine: engine),
    "SQLAlchemy connection": partial(sqlalchemy_sync, open_on=Engine.connect),
    "SQLAlchemy session": partial(sqlalchemy_sync, open_on=Session),
    "SQLAlchemy engine, psycopg2": partial(sqlalchemy_sync, driver="psycopg2", open_on=lambda engine: engine),
    "SQLAlchemy async engine, asyncpg": partial(sqlalchemy_async, driver="asyncpg", open_on=engine_unchanged),
    "SQLAlchemy async connection, psycopg": partial(
        sqlalchemy_async, driver="psycopg", open_on=connection_of
    ),
    "SQLAlchemy async connection, asyncpg": partial(
        sqlalchemy_async, driver="asyncpg", open_on=connection_of
    ),
    "SQLAlchemy async session, asyncpg": partial(sqlalchemy_async, driver="asyncpg", open_on=session_of),
    "Django": django_connection,
}
