"""The server that tests run on, and fresh databases on it."""

import os
import secrets
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any, Protocol

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lonnymq.embedded import Server, StillInUse

EMBEDDED_VERSION = 18
SETTINGS = {
    "autovacuum": "on",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",  # it takes half a second for the query of tests/invariants.py; our functions turn it off
    "max_connections": "200",
    "max_prepared_transactions": "10",
}


MEMORY = Path("/dev/shm")  # noqa: S108  mkdtemp makes a folder that only its owner can open
MEMORY_BYTES = 4 * 2**30
LEFTOVER_AGE_S = 3600


class AnyServer(Protocol):
    def dsn(self, dbname: str = ...) -> str: ...


class Connect(Protocol):
    """Opens an autocommit connection to the test's own database; keywords go to psycopg.connect."""

    def __call__(self, **keywords: Any) -> psycopg.Connection: ...


@dataclass(frozen=True)
class ExternalServer:
    """The server that LONNYMQ_TEST_DSN points to. Its role needs CREATEDB."""

    address: str

    def dsn(self, dbname: str = "postgres") -> str:
        return make_conninfo(self.address, dbname=dbname)


def embedded_server(data_dir: Path, bin_dir: Path, **settings: str) -> Server:
    return Server(data_dir, bin_dir=bin_dir, settings=SETTINGS | settings)


def server_folder(prefix: str) -> Path:
    """Make a folder for a server's data: in memory if there is room, since tests make and drop many files.

    It is not in pytest's temporary folder: when root runs the tests, the server's account cannot reach that.
    """
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES
    return Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if has_room else None))


def erase_leftovers() -> None:
    """Erase folders in memory that killed runs left behind: unused, and more than an hour old."""
    for path in MEMORY.glob("lonnymq-*"):
        with suppress(StillInUse, OSError):
            if time.time() - path.stat().st_mtime > LEFTOVER_AGE_S and path.stat().st_uid == os.getuid():
                Server(path).erase()


def speed_up_logins(admin: psycopg.Connection) -> None:
    """Hash the password of this login once, not 4096 times, which would take clients some milliseconds.

    PostgreSQL 15 has no setting for it.
    """
    if admin.info.server_version >= 160000:
        with admin.transaction():
            admin.execute("SELECT pg_advisory_xact_lock(1)")  # other test processes do the same
            admin.execute("SET LOCAL scram_iterations = 1")
            admin.execute(
                sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                    sql.Identifier(admin.info.user), sql.Literal(admin.info.password)
                )
            )


def unique_name(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(6)}"


def create_database(server: AnyServer, name: str, template: str = "template0") -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        copy_database(admin, name, template)


def drop_database(server: AnyServer, name: str) -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        delete_database(admin, name)


def copy_database(admin: psycopg.Connection, name: str, template: str) -> None:
    names = (sql.Identifier(name), sql.Identifier(template))
    admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(*names))


def delete_database(admin: psycopg.Connection, name: str) -> None:
    admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


class DatabasesToDrop:
    """Drops databases in a thread: PostgreSQL waits until every session of the server has noticed, which can
    take seconds while one is busy. A test waits only if very many are left to drop.
    """

    def __init__(self, server: AnyServer) -> None:
        self._server = server
        self._names: Queue[str | None] = Queue(maxsize=100)
        self._error: psycopg.Error | None = None
        self._thread = threading.Thread(target=self._drop_until_closed)
        self._thread.start()

    def add(self, name: str) -> None:
        self._names.put(name)

    def wait(self) -> None:
        """Return when all are dropped."""
        self._names.join()

    def close(self) -> None:
        """Return when all are dropped. Raises what went wrong."""
        self._names.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _drop_until_closed(self) -> None:
        with psycopg.connect(self._server.dsn("postgres"), autocommit=True) as admin:
            while (name := self._names.get()) is not None:
                try:
                    delete_database(admin, name)
                except psycopg.Error as error:
                    self._error = error
                finally:
                    self._names.task_done()


def until_waiting(watcher: psycopg.Connection, waiter: psycopg.Connection, seconds: float = 10) -> None:
    """Return once the session of `waiter`, which another thread uses, waits for a lock."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        row = watcher.execute(
            "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", (waiter.info.backend_pid,)
        ).fetchone()
        if row == ("Lock",):
            return
        time.sleep(0.005)
    raise AssertionError("the session does not wait for a lock")
