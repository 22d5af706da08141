"""The queue that a command works on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lonnymq.cli.failure import BadValue
from lonnymq.errors import ChannelForbidden, InvalidArgument, NotPermitted, ReadOnlyDatabase
from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Connection

    from lonnymq.client.queue import Queue

CONNECTIONS = 2
PIECES = 100


@contextmanager
def opened(dsn: str | None, schema: str) -> Iterator[Queue]:
    """At the address that the option, or else the environment, names, in a schema this package works with."""
    from lonnymq.cli.database import CONNECT_TIMEOUT_S, address, connect
    from lonnymq.client.queue import Queue

    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # what it warns of, an error of ours tells
    with connect(dsn) as conn:
        check_schema(conn, schema)
    with Queue(address(dsn), schema, listen=False, pool_size=CONNECTIONS, timeout=CONNECT_TIMEOUT_S) as queue:
        try:
            yield queue
        except InvalidArgument as error:
            raise BadValue(error.message, error.hint) from error


def check_schema(conn: Connection[Any], schema: str) -> None:
    """Only its owner may read what is installed; to others, who may use it, calls say what is wrong."""
    from lonnymq.adapters.psycopg import login
    from lonnymq.install import check
    from lonnymq.install.missing_roles import missing_role

    try:
        check(conn, schema)
    except NotPermitted:
        if is_closed(conn, schema):
            denied = f"permission denied for schema {identifier(schema)}"
            raise missing_role(schema, None, login(conn), denied) from None


def is_closed(conn: Connection[Any], schema: str) -> bool:
    """Whether the schema is there, and not for this login."""
    query = "SELECT NOT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
    found = conn.execute(query, [schema]).fetchone()
    return found is not None and bool(found[0])


def dispatch(queue: Queue) -> bool:
    """Place what came since consumers last did, so that it is counted, too; they do it all the time, while
    they run. Returns whether this login may.
    """
    from lonnymq.client.calls import ask
    from lonnymq.commands import Dispatch

    try:
        for _ in range(PIECES):
            if not queue.perform(ask(Dispatch())):
                break
    except (ChannelForbidden, NotPermitted, ReadOnlyDatabase):
        return False
    return True


def server_time(queue: Queue) -> int:
    """By which all times of the queue are to be read."""
    from lonnymq.client.calls import ask
    from lonnymq.client.times import ServerClock

    return queue.perform(ask(ServerClock()))
