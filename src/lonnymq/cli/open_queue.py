"""Opens the queue that a command works on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lonnymq.cli.failure import BadValue
from lonnymq.errors import InvalidArgument, NotPermitted
from lonnymq.statement import identifier

if TYPE_CHECKING:
    from psycopg import Connection

    from lonnymq.client.queue import Queue

POOL_SIZE = 2


@contextmanager
def opened(dsn: str | None, schema: str) -> Iterator[Queue]:
    """The queue at the address from --dsn or the environment. Checks first that this package works with the
    schema.
    """
    from lonnymq.cli.database import CONNECT_TIMEOUT_S, address, connect
    from lonnymq.client.queue import Queue

    logging.getLogger("psycopg").setLevel(logging.ERROR)  # we raise what it and its pool would warn about
    with connect(dsn) as conn:
        check_schema(conn, schema)
    with Queue(address(dsn), schema, listen=False, pool_size=POOL_SIZE, timeout=CONNECT_TIMEOUT_S) as queue:
        try:
            yield queue
        except InvalidArgument as error:
            raise BadValue(error.message, error.hint) from error


def check_schema(conn: Connection[Any], schema: str) -> None:
    """Only the owner may read the installed version. For other logins, the calls themselves report a
    mismatch.
    """
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
    """Whether the schema exists and this login may not use it."""
    query = "SELECT NOT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
    found = conn.execute(query, [schema]).fetchone()
    return found is not None and bool(found[0])
