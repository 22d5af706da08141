"""Install from what a queue has: a connection of psycopg's, or something to borrow one from."""

from __future__ import annotations

import asyncio

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lonnymq.errors import UnsuitableConnection
from lonnymq.install import Installed, install


def install_on(source: object, schema: str, *, roles: bool) -> Installed:
    if isinstance(source, psycopg.Connection):
        source.execute("SELECT")  # begins the caller's transaction, if that is theirs to end
        return install(source, schema, roles=roles)
    if isinstance(source, ConnectionPool):
        with source.connection() as connection:
            return install(connection, schema, roles=roles)
    raise _unsuitable(source)


async def install_on_async(source: object, schema: str, *, roles: bool) -> Installed:
    """In a thread, on a connection of its own: it is done once, and by the same code."""
    if isinstance(source, AsyncConnectionPool):
        return await asyncio.to_thread(_install, str(source.conninfo), schema, roles=roles)
    raise _unsuitable(source)


def _install(conninfo: str, schema: str, *, roles: bool) -> Installed:
    with psycopg.connect(conninfo) as connection:
        return install(connection, schema, roles=roles)


def _unsuitable(source: object) -> UnsuitableConnection:
    return UnsuitableConnection(
        f"the queue cannot be installed through {type(source).__module__}.{type(source).__qualname__}",
        "run `lonnymq install`, or call lonnymq.install.install() with a connection of psycopg's",
    )
