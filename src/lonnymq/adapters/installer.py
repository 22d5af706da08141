"""Install from what a queue has: on a connection of psycopg's, which it is or lends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from lonnymq.adapters import drivers
from lonnymq.adapters.driver_errors import Lent, refuse
from lonnymq.adapters.psycopg_pool import borrowed, unreachable
from lonnymq.errors import UnsuitableConnection
from lonnymq.install import Installed, install


def install_on(source: object, schema: str, *, roles: bool, wait: float) -> Installed:
    with _lent(source) as connection:
        return _install(connection, schema, roles=roles, wait=wait)


async def install_on_async(source: object, schema: str, *, roles: bool, wait: float) -> Installed:
    """In a thread, on a connection of its own: it is done once, and by the same code."""
    from psycopg_pool import AsyncConnectionPool

    if not isinstance(source, AsyncConnectionPool) or (address := drivers.address(source)) is None:
        raise _unsuitable(source)

    def install_there() -> Installed:
        with unreachable():
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
def _lent(source: object) -> Iterator[psycopg.Connection[Any]]:
    """A connection that the call may join or, if it is lent, begin transactions of its own on."""
    from psycopg_pool import ConnectionPool

    if isinstance(source, psycopg.Connection):
        source.execute("SELECT")  # begins the caller's transaction, if that is theirs to end
        yield source
    elif isinstance(source, ConnectionPool):
        with borrowed(source) as connection:
            yield connection
    elif drivers.lends(source):
        with _lent_by_engine(source) as connection:
            yield connection
    else:
        raise _unsuitable(source)


@contextmanager
def _lent_by_engine(engine: object) -> Iterator[psycopg.Connection[Any]]:
    from sqlalchemy import Engine
    from sqlalchemy.exc import DBAPIError

    if not isinstance(engine, Engine) or engine.dialect.driver != "psycopg":
        raise _unsuitable(engine)
    lent = Lent()
    try:
        with engine.connect() as proxy, lent:
            connection: psycopg.Connection[Any] = proxy.connection.driver_connection  # type: ignore[assignment]
            yield connection
    except DBAPIError as error:
        lent.refuse(error)


def _unsuitable(source: object) -> UnsuitableConnection:
    return UnsuitableConnection(
        f"the queue cannot be installed through {type(source).__module__}.{type(source).__qualname__}",
        "run `lonnymq install`, or call lonnymq.install.install() with a connection of psycopg's",
    )
