"""What the server tells of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lonnymq.cli.bench.results import Surroundings

if TYPE_CHECKING:
    from psycopg import Connection

SETTINGS = [
    "server_version",
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "synchronous_standby_names",
    "shared_buffers",
    "max_connections",
]


def surroundings(conn: Connection[Any]) -> Surroundings:
    from lonnymq.adapters.psycopg_pool import is_behind_a_pooler

    [(backend_pid,)] = conn.execute("SELECT pg_catalog.pg_backend_pid()")
    found = conn.execute(
        "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings WHERE name = ANY (%s)"
        " ORDER BY pg_catalog.array_position(%s, name)",
        [SETTINGS, SETTINGS],
    )
    return Surroundings(
        conn.info.dbname, conn.info.host, is_behind_a_pooler(conn, backend_pid), dict(found.fetchall())
    )


def wal_position(conn: Connection[Any]) -> int | None:
    """In bytes, with what is not yet written out. None where this login may not ask, or nobody can."""
    from psycopg import Error, OperationalError

    try:
        [(position,)] = conn.execute("SELECT pg_catalog.pg_current_wal_insert_lsn() - '0/0'")
    except OperationalError:
        raise
    except Error:
        return None
    return int(position)
