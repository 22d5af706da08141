"""The server that a run is on, and where its files are. It may be replaced by its standby."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg

from chaos.proxy import ProxyProcess
from chaos.world import SCHEMA
from lonnymq.embedded import NotRunning, Server, account, binaries
from lonnymq.embedded.reachable_paths import reachable_binaries

DATABASE = "chaos"
UP_TIMEOUT_S = 60
FILL_ATTEMPTS = 100
OPERATOR = "chaos operator"  # the application name of sessions that no fault ends
SETTINGS = {
    "autovacuum": "on",
    "autovacuum_naptime": "5s",
    "checkpoint_timeout": "60s",
    "deadlock_timeout": "500ms",
    "jit": "off",
    "max_connections": "120",
    "max_prepared_transactions": "20",
    "max_wal_size": "512MB",
    "shared_buffers": "256MB",
    "wal_level": "logical",
    "wal_sender_timeout": "5s",
}
MEMORY = Path("/dev/shm")  # noqa: S108 mkdtemp makes a folder of our own
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


class Cluster:
    """Clients reach the present server through the proxy; operators and the judge reach it directly."""

    def __init__(self, folder: Path, version: int, *, size_bytes: int = 0, with_clock: bool = False) -> None:
        """With `size_bytes`, the data is on a file system of that size, which root can make."""
        self.folder = folder
        self.proxy = ProxyProcess()
        self.programs = reachable_binaries(binaries(version), account.for_server())
        self.clock = Clock(folder, self.programs) if with_clock else None
        self.disk = Disk(folder / "disk", size_bytes)
        self._bin_dir = self.programs if self.clock is None else self.clock.bin_dir
        self._servers: list[Server] = []
        self.lock = threading.RLock()  # held by the faults of the server, one at a time
        self.server = self.new_server()

    def new_server(self, *, is_started: bool = True, is_copy: bool = False) -> Server:
        """A copy is not on the small file system, and has the clock of the machine.

        No fault is meant for it. With a clock that is set back, `pg_ctl` would wait for another server.
        """
        folder = (self.folder if is_copy else self.disk.folder) / f"server-{len(self._servers)}"
        programs = self.programs if is_copy else self._bin_dir
        server = Server(folder, bin_dir=programs, settings=SETTINGS)
        self._servers.append(server)
        if is_started:
            server.start()
            self.use(server)
        return server

    def use(self, server: Server) -> None:
        """Send clients to this server from now on."""
        self.server = server
        self.proxy.tell("target", host="127.0.0.1", port=server.port)

    def dsn_for_clients(self) -> str:
        return self.server.dsn(DATABASE).replace(f":{self.server.port}/", f":{self.proxy.port}/")

    def connect(self, dbname: str = DATABASE) -> psycopg.Connection:
        """Connect as an operator. If the server is down, wait until it is up again."""
        deadline = time.monotonic() + UP_TIMEOUT_S
        while True:
            try:
                return psycopg.connect(
                    self.server.dsn(dbname),
                    autocommit=True,
                    connect_timeout=5,
                    options=f"-c search_path={SCHEMA} -c statement_timeout=0 -c lock_timeout=0",
                    application_name=OPERATOR,
                )
            except (NotRunning, psycopg.OperationalError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def restart(self) -> None:
        """Start the server again after it was killed or stopped, and wait until it answers."""
        self.server.stop("immediate")
        self.server.start()
        self.use(self.server)
        self.until_it_answers()

    def until_it_answers(self) -> None:
        self.connect().close()

    def run_program(self, name: str, *arguments: str, server: Server | None = None) -> None:
        """Run one of PostgreSQL's programs against the server."""
        done = subprocess.run(
            [self.programs / name, *arguments],
            env=os.environ | (server or self.server).psql_env | {"PGAPPNAME": OPERATOR},
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name} exited with {done.returncode}: {done.stderr.strip()}")

    def close(self) -> None:
        with ExitStack() as stack:  # also if one of them fails
            stack.callback(self.disk.close)
            for server in self._servers:
                stack.callback(server.erase)
            stack.callback(self.proxy.stop)


class Disk:
    """Where the servers' data is: a small file system of its own if there is to be a limit, else a folder."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder = folder
        self.is_limited = False
        self._size_bytes = size_bytes
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
        if size_bytes and os.geteuid() == 0:
            options = f"size={size_bytes},mode=711"
            mounted = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "lonnymq-chaos", str(folder)],
                capture_output=True,
                check=False,
            )
            self.is_limited = mounted.returncode == 0

    def fill(self) -> None:
        """Leave no space: make the file system as small as what it has."""
        for attempt in reversed(range(FILL_ATTEMPTS)):
            usage = os.statvfs(self.folder)
            try:
                self._resize((usage.f_blocks - usage.f_bfree) * usage.f_frsize)
            except subprocess.CalledProcessError:  # meanwhile it has more than that
                if not attempt:
                    raise
            else:
                return

    def free(self) -> None:
        self._resize(self._size_bytes)

    def _resize(self, size_bytes: int) -> None:
        subprocess.run(
            ["mount", "-o", f"remount,size={size_bytes}", str(self.folder)], check=True, capture_output=True
        )

    def close(self) -> None:
        if self.is_limited:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)


class Clock:
    """The server's clock, which libfaketime shifts. `bin_dir` has a `postgres` that is started with it."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._file = folder / "clock"
        self.bin_dir = _mirror(programs, folder / "programs")
        self.set(0)
        (self.bin_dir / "postgres").unlink()
        wrapper = self.bin_dir / "postgres"
        wrapper.write_text(
            f"#!/bin/sh\nexport LD_PRELOAD={FAKETIME} FAKETIME_TIMESTAMP_FILE={self._file}"
            f" FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1\n"
            f'exec {programs / "postgres"} "$@"\n'
        )
        wrapper.chmod(0o755)

    def set(self, seconds: float) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+.3f}\n")
        new.chmod(0o644)
        new.rename(self._file)

    @staticmethod
    def is_available() -> bool:
        return FAKETIME.exists()


def _mirror(programs: Path, folder: Path) -> Path:
    """Copy the programs, with links to what is around them: they find libraries by relative paths."""
    source, names = programs.parents[2], programs.parts[-3:]
    for name in names:
        folder.mkdir()
        folder.chmod(0o755)
        for sibling in source.iterdir():
            if sibling.name != name:
                (folder / sibling.name).symlink_to(sibling)
        source, folder = source / name, folder / name
    # Copies, because a program looks for others beside the file that a link leads to.
    shutil.copytree(source, folder)
    return folder


def is_in_memory() -> bool:
    """Whether the files of a run are in memory."""
    return os.access(MEMORY, os.W_OK)


def work_folder() -> Path:
    """A folder for a run, in memory if that is possible. The server's account must be able to reach it."""
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-chaos-", dir=MEMORY if is_in_memory() else None))
    folder.chmod(0o711)
    return folder
