"""Install from what a queue has: on a connection of psycopg's, which it is or lends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from lonnymq.adapters import held
from lonnymq.errors import UnsuitableConnection
from lonnymq.install import Installed, install


def install_on(source: object, schema: str, *, roles: bool) -> Installed:
    with _lent(source) as connection:
        return install(connection, schema, roles=roles)


async def install_on_async(source: object, schema: str, *, roles: bool) -> Installed:
    """In a thread, on a connection of its own: it is done once, and by the same code."""
    from psycopg_pool import AsyncConnectionPool

    if not isinstance(source, AsyncConnectionPool) or (address := held.address(source)) is None:
        raise _unsuitable(source)

    def install_there() -> Installed:
        with psycopg.connect(address) as connection:
            return install(connection, schema, roles=roles)

    return await asyncio.to_thread(install_there)


@contextmanager
def _lent(source: object) -> Iterator[psycopg.Connection[Any]]:
    if isinstance(source, psycopg.Connection):
        source.execute("SELECT")  # begins the caller's transaction, if that is theirs to end
        yield source
        return
    if not held.lends(source):
        raise _unsuitable(source)
    with held.transaction(source) as lent:
        connection = getattr(getattr(lent, "connection", None), "driver_connection", lent)
        if not isinstance(connection, psycopg.Connection):
            raise _unsuitable(source)
        yield connection


def _unsuitable(source: object) -> UnsuitableConnection:
    return UnsuitableConnection(
        f"the queue cannot be installed through {type(source).__module__}.{type(source).__qualname__}",
        "run `lonnymq install`, or call lonnymq.install.install() with a connection of psycopg's",
    )
