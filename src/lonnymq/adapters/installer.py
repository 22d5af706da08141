"""Installs through a queue's connection or pool, which must be of psycopg."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from lonnymq.adapters import drivers
from lonnymq.adapters.driver_errors import refuse, with_translated_errors
from lonnymq.adapters.psycopg_pool import borrowed, translated_connect_errors
from lonnymq.errors import UnsuitableConnection
from lonnymq.install import Installed, install


def install_on(source: object, schema: str, *, roles: bool, wait: float) -> Installed:
    with _connection_of(source) as connection:
        return _install(connection, schema, roles=roles, wait=wait)


async def install_on_async(source: object, schema: str, *, roles: bool, wait: float) -> Installed:
    """Install on a new connection in a thread. It is done once, so the synchronous code will do."""
    from psycopg_pool import AsyncConnectionPool

    if not isinstance(source, AsyncConnectionPool) or (address := drivers.address(source)) is None:
        raise _unsuitable(source)

    def install_there() -> Installed:
        with translated_connect_errors():
            connection = psycopg.connect(address)
        with connection:
            return _install(connection, schema, roles=roles, wait=wait)

    return await asyncio.to_thread(install_there)


def _install(connection: psycopg.Connection[Any], schema: str, *, roles: bool, wait: float) -> Installed:
    try:
        return install(connection, schema, roles=roles, wait=wait)
    except psycopg.Error as error:
        refuse(error)


@contextmanager
def _connection_of(source: object) -> Iterator[psycopg.Connection[Any]]:
    """The source itself if it is a connection, whose transaction the installation joins; else one of the
    pool.
    """
    from psycopg_pool import ConnectionPool

    if isinstance(source, psycopg.Connection):
        source.execute(
            "SELECT"
        )  # starts the caller's transaction, unless the connection is in autocommit mode
        yield source
    elif isinstance(source, ConnectionPool):
        with borrowed(source) as connection:
            yield connection
    elif drivers.is_pool(source):
        with _connection_of_engine(source) as connection:
            yield connection
    else:
        raise _unsuitable(source)


@contextmanager
def _connection_of_engine(engine: object) -> Iterator[psycopg.Connection[Any]]:
    from sqlalchemy import Engine
    from sqlalchemy.exc import DBAPIError

    if not isinstance(engine, Engine) or engine.dialect.driver != "psycopg":
        raise _unsuitable(engine)
    with with_translated_errors(engine.connect(), (DBAPIError,)) as proxy:
        connection: psycopg.Connection[Any] = proxy.connection.driver_connection  # type: ignore[assignment]
        yield connection


def _unsuitable(source: object) -> UnsuitableConnection:
    return UnsuitableConnection(
        f"the queue cannot be installed through {type(source).__module__}.{type(source).__qualname__}",
        "run `lonnymq install`, or call lonnymq.install.install() with a psycopg connection",
    )
