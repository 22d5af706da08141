"""A PostgreSQL server for benchmarks, and fresh databases on it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks.peers import Peer
from benchmarks.pgbench import Pgbench
from lonnymq.embedded import Server, binaries

VERSION = 18
DATABASE = "bench"
SETTINGS = {
    "max_connections": "100",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",  # large enough that no checkpoint runs during a measurement
    "checkpoint_timeout": "1h",
}


@dataclass
class BenchServer:
    postgres: Server
    bin_dir: Path
    _templates: set[str] = field(default_factory=set)

    @contextmanager
    def database(self, peer: Peer, channels: int) -> Iterator[Pgbench]:
        """Create a database with the peer's queue and that many channels; returns pgbench for it."""
        with self.fresh(peer.name, peer.install):
            with self.connect(peer) as conn:
                peer.open_channels(conn, channels)
            self.checkpoint()
            env = self.postgres.psql_env | {"PGDATABASE": DATABASE}
            yield Pgbench(self.bin_dir, env, peer.search_path)

    @contextmanager
    def fresh(self, name: str, install: Callable[[str], object]) -> Iterator[str]:
        """Create a database and return its address. `install` prepares its template, once per name."""
        template = f"template_{name}".replace(" ", "_")
        if template not in self._templates:
            self._admin("CREATE DATABASE {}", template)
            try:
                install(self.postgres.dsn(template))
            except BaseException:
                self._admin("DROP DATABASE {} WITH (FORCE)", template)
                raise
            self._templates.add(template)
        self._admin("CREATE DATABASE {} TEMPLATE {}", DATABASE, template)
        try:
            yield self.postgres.dsn(DATABASE)
        finally:
            self._admin("DROP DATABASE {} WITH (FORCE)", DATABASE)

    def checkpoint(self) -> None:
        """Write dirty pages now, so that the next run does not have to."""
        self._admin("CHECKPOINT")

    def connect(self, peer: Peer) -> psycopg.Connection:
        return psycopg.connect(
            self.postgres.dsn(DATABASE), autocommit=True, options=f"-c search_path={peer.search_path}"
        )

    def server_version(self) -> str:
        with psycopg.connect(self.postgres.dsn()) as conn:
            return f"PostgreSQL {conn.info.parameter_status('server_version')}"

    def wal_bytes(self) -> int:
        with psycopg.connect(self.postgres.dsn()) as conn:
            row = conn.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::BIGINT"
            ).fetchone()
        assert row is not None
        return int(row[0])

    def cpu_seconds(self) -> float:
        """CPU time of the server, including processes that have exited."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process exited in the meantime
            if self.postgres.pid == int(stat.parent.name):
                ticks += sum(map(int, fields[11:15]))  # its own time and that of exited children
            elif self.postgres.pid == int(fields[1]):
                ticks += sum(map(int, fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _admin(self, statement: str, *names: str) -> None:
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as conn:
            conn.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def bench_server() -> Iterator[BenchServer]:
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-bench-"))
    bin_dir = binaries(VERSION)
    server = Server(folder, bin_dir=bin_dir, settings=SETTINGS)
    try:
        with server:
            yield BenchServer(server, bin_dir)
    finally:
        server.erase()
        shutil.rmtree(folder, ignore_errors=True)
