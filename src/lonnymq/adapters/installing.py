"""Install from what a queue has: a connection of psycopg's, or something that has an address."""

from __future__ import annotations

import asyncio

import psycopg

from lonnymq.adapters import held
from lonnymq.errors import UnsuitableConnection
from lonnymq.install import Installed, install


def install_on(source: object, schema: str, *, roles: bool) -> Installed:
    if isinstance(source, psycopg.Connection):
        source.execute("SELECT")  # begins the caller's transaction, if that is theirs to end
        return install(source, schema, roles=roles)
    if isinstance(source, psycopg.AsyncConnection) or (address := held.address(source)) is None:
        raise UnsuitableConnection(
            f"the queue cannot be installed through {type(source).__module__}.{type(source).__qualname__}",
            "run `lonnymq install`, or call lonnymq.install.install() with a connection of psycopg's",
        )
    with psycopg.connect(address) as connection:
        return install(connection, schema, roles=roles)


async def install_on_async(source: object, schema: str, *, roles: bool) -> Installed:
    """In a thread: it is done once, and by the same code."""
    return await asyncio.to_thread(install_on, source, schema, roles=roles)
