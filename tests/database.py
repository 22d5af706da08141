"""The server that tests run on, and fresh databases on it."""

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lonnymq.embedded import Server

EMBEDDED_VERSION = 18
SETTINGS = {
    "autovacuum": "on",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "max_prepared_transactions": "10",
}


class AnyServer(Protocol):
    def dsn(self, dbname: str = ...) -> str: ...


class Connect(Protocol):
    """Opens an autocommit connection to the test's own database; keywords go to psycopg.connect."""

    def __call__(self, **keywords: Any) -> psycopg.Connection: ...


@dataclass(frozen=True)
class ServerElsewhere:
    """The server that LONNYMQ_TEST_DSN points to. Its role needs CREATEDB."""

    address: str

    def dsn(self, dbname: str = "postgres") -> str:
        return make_conninfo(self.address, dbname=dbname)


def embedded_server(data_dir: Path, bin_dir: Path, **settings: str) -> Server:
    return Server(data_dir, bin_dir=bin_dir, settings=SETTINGS | settings)


def unique_name(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(6)}"


def create_database(server: AnyServer, name: str, template: str = "template0") -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )


def drop_database(server: AnyServer, name: str) -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def until_waiting(watcher: psycopg.Connection, waiter: psycopg.Connection, seconds: float = 10) -> None:
    """Return once `waiter`, which another thread uses, waits for a lock."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        row = watcher.execute(
            "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", (waiter.info.backend_pid,)
        ).fetchone()
        if row == ("Lock",):
            return
        time.sleep(0.005)
    raise AssertionError("it does not wait for a lock")
