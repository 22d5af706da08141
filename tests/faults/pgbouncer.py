"""A PgBouncer in front of the test's database, with two server sessions for any number of clients."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lonnymq.embedded import account

HOST = "127.0.0.1"
ATTEMPTS = 5
TIMEOUT_S = 10.0
SESSIONS = 2
SETTINGS = """
[databases]
* = host={host} port={server_port}

[pgbouncer]
listen_addr = {listen_on}
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
admin_users = {user}
pool_mode = transaction
default_pool_size = {sessions}
min_pool_size = {sessions}
max_client_conn = 100
"""


class NotStarted(Exception):
    """PgBouncer did not start; the message contains its log."""


class Session(NamedTuple):
    """The state of a server session, as its next client finds it."""

    pid: int
    synchronous_commit: str
    search_path: str
    prepared: int
    listens_to: list[str]


@dataclass(frozen=True)
class PgBouncer:
    """`direct` is the address of the database behind it."""

    direct: str
    port: int

    @property
    def dsn(self) -> str:
        found = conninfo_to_dict(self.direct)
        return f"postgresql://{found['user']}@{HOST}:{self.port}/{found['dbname']}"

    def server_pids(self) -> set[int]:
        admin = conninfo_to_dict(self.dsn) | {"dbname": "pgbouncer"}
        with psycopg.connect(**_texts(admin), autocommit=True) as console:
            cursor = console.execute("SHOW SERVERS")
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
        dbname = conninfo_to_dict(self.direct)["dbname"]
        return {int(row["remote_pid"]) for row in rows if row["database"] == dbname}

    def sessions(self) -> list[Session]:
        """Every session. A transaction keeps each one busy, so that the next client gets another."""
        with ExitStack() as stack:
            found = []
            for _ in range(SESSIONS):
                client = stack.enter_context(psycopg.connect(self.dsn, prepare_threshold=None))
                found += client.execute(
                    "SELECT pg_backend_pid(), current_setting('synchronous_commit'), "
                    "current_setting('search_path'), "
                    "(SELECT COUNT(*) FROM pg_prepared_statements), ARRAY(SELECT pg_listening_channels())"
                ).fetchall()
        sessions = [Session(*row) for row in found]
        assert {session.pid for session in sessions} == self.server_pids()
        return sessions


@contextmanager
def pgbouncer(direct: str) -> Iterator[PgBouncer]:
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-pgbouncer-"))
    try:
        process, port = _started(folder, conninfo_to_dict(direct))
        try:
            yield PgBouncer(direct, port)
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)
    finally:
        shutil.rmtree(folder)


def _started(folder: Path, server: dict[str, Any]) -> tuple["subprocess.Popen[bytes]", int]:
    runs_as = account.for_server()
    log = folder / "log"
    runs_as.give(folder)
    for _ in range(ATTEMPTS):
        port = _free_port()
        users = f'"{server["user"]}" "{server.get("password", "")}"\n'
        settings = SETTINGS.format(
            host=server["host"],
            server_port=server["port"],
            listen_on=HOST,
            port=port,
            folder=folder,
            user=server["user"],
            sessions=SESSIONS,
        )
        for name, text in (("users", users), ("pgbouncer.ini", settings)):
            path = folder / name
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
            runs_as.give(path)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [_program(), folder / "pgbouncer.ini"],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=None if runs_as.is_ours else runs_as.uid,
                group=None if runs_as.is_ours else runs_as.gid,
                extra_groups=None if runs_as.is_ours else [],
            )
        if _accepts(process, port):
            return process, port
        # Another program may have taken the port before PgBouncer did.
        if process.poll() is None:
            process.kill()
        process.wait(TIMEOUT_S)
    raise NotStarted(log.read_text(encoding="utf-8"))


def _program() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    assert found is not None, "the Debian package is not installed: mark the test debian('pgbouncer')"
    return found


def _accepts(process: "subprocess.Popen[bytes]", port: int) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return process.poll() is None
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _texts(conninfo: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value) for name, value in conninfo.items()}
