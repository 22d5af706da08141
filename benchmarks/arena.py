"""A PostgreSQL for measuring, and databases on it with a queue in each."""

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
    "max_wal_size": "8GB",  # a checkpoint in one run and not in the next would be all that is measured
    "checkpoint_timeout": "1h",
}


@dataclass
class Arena:
    server: Server
    bin_dir: Path
    _templates: set[str] = field(default_factory=set)

    @contextmanager
    def database(self, peer: Peer, channels: int) -> Iterator[Pgbench]:
        """A fresh database with the peer's queue and that many channels, and pgbench on it."""
        with self.fresh(peer.name, peer.install):
            with self.connect(peer) as conn:
                peer.open_channels(conn, channels)
            self.checkpoint()
            env = self.server.psql_env | {"PGDATABASE": DATABASE}
            yield Pgbench(self.bin_dir, env, peer.search_path)

    @contextmanager
    def fresh(self, name: str, install: Callable[[str], object]) -> Iterator[str]:
        """The address of a fresh database, with what `install` puts there: once for all of this name."""
        template = f"template_{name}".replace(" ", "_")
        if template not in self._templates:
            self._admin("CREATE DATABASE {}", template)
            install(self.server.dsn(template))
            self._templates.add(template)
        self._admin("CREATE DATABASE {} TEMPLATE {}", DATABASE, template)
        try:
            yield self.server.dsn(DATABASE)
        finally:
            self._admin("DROP DATABASE {} WITH (FORCE)", DATABASE)

    def checkpoint(self) -> None:
        """What was done before a run is not for it to pay."""
        self._admin("CHECKPOINT")

    def connect(self, peer: Peer) -> psycopg.Connection:
        return psycopg.connect(
            self.server.dsn(DATABASE), autocommit=True, options=f"-c search_path={peer.search_path}"
        )

    def server_version(self) -> str:
        with psycopg.connect(self.server.dsn()) as conn:
            return f"PostgreSQL {conn.info.parameter_status('server_version')}"

    def wal_bytes(self) -> int:
        with psycopg.connect(self.server.dsn()) as conn:
            row = conn.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::BIGINT"
            ).fetchone()
        assert row is not None
        return int(row[0])

    def cpu_seconds(self) -> float:
        """Of the server, its present and its past processes."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
            if self.server.pid == int(stat.parent.name):
                ticks += sum(map(int, fields[11:15]))  # its own and that of children that ended
            elif self.server.pid == int(fields[1]):
                ticks += sum(map(int, fields[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _admin(self, statement: str, *names: str) -> None:
        with psycopg.connect(self.server.dsn(), autocommit=True) as conn:
            conn.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def arena() -> Iterator[Arena]:
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-bench-"))
    bin_dir = binaries(VERSION)
    server = Server(folder, bin_dir=bin_dir, settings=SETTINGS)
    try:
        with server:
            yield Arena(server, bin_dir)
    finally:
        server.erase()
        shutil.rmtree(folder, ignore_errors=True)
