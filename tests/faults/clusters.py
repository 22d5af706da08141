"""Separate clusters, for tests that cannot use the one that all tests share."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from lonnymq.embedded import Server, account, binaries
from tests.database import EMBEDDED_VERSION, SETTINGS, AnyServer, server_folder

DURABLE = {"autovacuum": "on", "max_connections": "50"}


@contextmanager
def folder() -> Iterator[Path]:
    path = server_folder("lonnymq-faults-")
    try:
        yield path
    finally:
        Server(path).erase()
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def cluster(version: int = EMBEDDED_VERSION, settings: Mapping[str, str] = SETTINGS) -> Iterator[Server]:
    with folder() as path, Server(path, bin_dir=binaries(version), settings=settings) as server:
        yield server


def connect(server: AnyServer, dbname: str) -> psycopg.Connection:
    return psycopg.connect(server.dsn(dbname), autocommit=True, options="-c search_path=lonnymq")


def next_xid(server: AnyServer) -> int:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        return int(str(conn.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::TEXT").fetchall()[0][0]))


def raise_xids(server: AnyServer, above: int) -> None:
    """Use up transaction ids until the next one is above the given one."""
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute("SET synchronous_commit = off")
        while next_xid(server) <= above:
            conn.execute(
                "DO $$ BEGIN FOR i IN 1 .. 5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
            )


def dump_and_restore(
    source: Server, target: Server, dbname: str, restored: str, version: int, *, is_complete: bool = True
) -> None:
    """Unless `is_complete`, the restore continues when roles are missing, as pg_restore does by default."""
    with folder() as path:
        archive = path / "archive"
        subprocess.run(
            [binaries(version) / "pg_dump", "--format=custom", f"--file={archive}", f"--dbname={dbname}"],
            env=source.psql_env,
            check=True,
        )
        subprocess.run(
            [binaries(version) / "createdb", "--template=template0", restored],
            env=target.psql_env,
            check=True,
        )
        subprocess.run(
            [
                binaries(version) / "pg_restore",
                *(["--exit-on-error"] if is_complete else []),
                f"--dbname={restored}",
                archive,
            ],
            env=target.psql_env,
            check=is_complete,
        )


def copy_stopped(source: Path, target: Path) -> None:
    """Copy the folder of a stopped server, with the files' owners."""
    subprocess.run(["cp", "-a", f"{source.resolve()}/.", target], check=True)
    storage = target / "postgres"
    if storage.is_symlink():
        real = storage.resolve()
        storage.unlink()
        subprocess.run(["cp", "-a", real, storage], check=True)
    target.chmod(source.stat().st_mode)
    account.for_server().give(storage)


def started(path: Path, version: int = EMBEDDED_VERSION) -> Server:
    return Server(path, bin_dir=binaries(version), settings=SETTINGS)


def make_standby(path: Path, primary: Server) -> None:
    """Make a stopped copy of the primary's folder into a standby, which follows once it is started."""
    data = path / "postgres" / "data"
    with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
        file.write(f"primary_conninfo = '{make_conninfo(primary.dsn('replication'))}'\n")
    (data / "standby.signal").touch()


def catch_up(standby: Server, primary: Server) -> None:
    """Wait until the standby has replayed everything that the primary has written."""
    with psycopg.connect(primary.dsn(), autocommit=True) as conn:
        [(written,)] = conn.execute("SELECT pg_current_wal_lsn()::TEXT").fetchall()
    deadline = time.monotonic() + 60
    with psycopg.connect(standby.dsn(), autocommit=True) as conn:
        while not conn.execute("SELECT pg_last_wal_replay_lsn() >= %s::PG_LSN", (written,)).fetchall()[0][0]:
            assert time.monotonic() < deadline, "the standby does not catch up"
            time.sleep(0.02)


def promote(standby: Server) -> None:
    with psycopg.connect(standby.dsn(), autocommit=True) as conn:
        assert conn.execute("SELECT pg_promote()").fetchone() == (True,)


SET_BACK = ("a standby that lagged", "a copy", "a backup on a new timeline")


@contextmanager
def set_back(first: Path, kind: str, on_the_original: Callable[[Server], None]) -> Iterator[Server]:
    """Run an action on a server and lose it: yield a server whose state is from before the action."""
    with folder() as second:
        copy_stopped(first, second)
        with started(first) as original:
            if kind == SET_BACK[0]:
                make_standby(second, original)
                with started(second) as standby:
                    catch_up(standby, original)
            on_the_original(original)
        if kind == SET_BACK[2]:
            data = second / "postgres" / "data"
            with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
                file.write("restore_command = 'false'\n")
            (data / "recovery.signal").touch()
        with started(second) as server:
            if kind == SET_BACK[0]:
                promote(server)
            _until_primary(server)
            yield server


def _until_primary(server: Server) -> None:
    deadline = time.monotonic() + 60
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        while conn.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
            assert time.monotonic() < deadline, "the server is still in recovery"
            time.sleep(0.02)
