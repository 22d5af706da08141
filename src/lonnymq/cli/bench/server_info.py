"""Reads the server's settings and WAL position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lonnymq.cli.bench.results import ServerInfo

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


def server_info(conn: Connection[Any]) -> ServerInfo:
    from lonnymq.adapters.psycopg_pool import is_behind_a_pooler

    [(backend_pid,)] = conn.execute("SELECT pg_catalog.pg_backend_pid()")
    found = conn.execute(
        "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings WHERE name = ANY (%s)"
        " ORDER BY pg_catalog.array_position(%s, name)",
        [SETTINGS, SETTINGS],
    )
    return ServerInfo(
        conn.info.dbname, conn.info.host, is_behind_a_pooler(conn, backend_pid), dict(found.fetchall())
    )


def wal_position(conn: Connection[Any]) -> int | None:
    """In bytes, including WAL not yet written to disk. None if this login, or this server, cannot tell."""
    from psycopg import Error, OperationalError

    try:
        [(position,)] = conn.execute("SELECT pg_catalog.pg_current_wal_insert_lsn() - '0/0'")
    except OperationalError:
        raise
    except Error:
        return None
    return int(position)
