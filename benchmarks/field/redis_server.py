"""A private Redis server on a free port, as durable as its documentation recommends."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.field.environments import NotInstalled

PROGRAM = "redis-server"
SETTINGS = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "bind": "127.0.0.1"}
START_TIMEOUT_SECONDS = 20
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class RedisServer:
    process: "subprocess.Popen[bytes]"
    port: int

    @contextmanager
    def fresh(self, name: str, install: Callable[[str], object]) -> Iterator[str]:  # noqa: ARG002 - as BenchServer
        """Delete everything and return the server's address."""
        self.call("FLUSHALL")
        yield f"redis://127.0.0.1:{self.port}/0"

    def checkpoint(self) -> None:
        """Redis has none."""

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def server_version(self) -> str:
        (version,) = [
            line for line in self.call("INFO server").splitlines() if line.startswith("redis_version:")
        ]
        return f"Redis {version.partition(':')[2]}"

    def call(self, command: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=START_TIMEOUT_SECONDS) as connection:
            connection.sendall(f"{command}\r\nQUIT\r\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    program = shutil.which(PROGRAM)
    if program is None:
        raise NotInstalled("no redis-server; on Debian: apt-get install redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="lonnymq-redis-") as folder:
        options = [part for name, value in SETTINGS.items() for part in (f"--{name}", value)]
        process = subprocess.Popen(
            [program, "--port", str(port), "--dir", folder, *options], stdout=subprocess.DEVNULL
        )
        try:
            server = RedisServer(process, port)
            wait_until_it_answers(server)
            yield server
        finally:
            process.terminate()
            process.wait()


def wait_until_it_answers(server: RedisServer) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        try:
            server.call("PING")
        except ConnectionError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return
