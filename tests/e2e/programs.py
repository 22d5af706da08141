"""Programs that run beside a test and print how far they are."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

TIMEOUT_S = 30.0
FAST = {"fsync": "off"}

PRELUDE = f"""
import os, select, signal, sys, threading, time
from pathlib import Path
import psycopg
from lonnymq.embedded import Server
server = Server(Path(sys.argv[1]), settings={FAST!r})
def say(*words): print(*words, flush=True)
def wait():
    # A signal that comes just before a read begins is handled only after the read.
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        pass
    sys.stdin.readline()
def query(text):
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        return conn.execute(text)
"""

STOP_WHEN_RESUMED = """
server.start()
say(server.pid)
wait()
server.stop()
"""

EXIT_WHEN_RESUMED = """
server.start()
say(server.pid)
wait()
"""


class Program:
    """A Python program in a separate process, which can use `server`, `say` and `wait`."""

    def __init__(self, source: str, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PRELUDE + source, data_dir],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def read_line(self) -> str:
        """The next line that the program prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program ended without printing anything"
        return line.strip()

    def resume(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """A terminal sends SIGINT to the whole group of processes in the foreground."""
        os.killpg(self._process.pid, signal.SIGINT)

    def wait(self) -> int:
        """The exit code, once the program has ended."""
        return self._process.wait(timeout=TIMEOUT_S)


@contextmanager
def programs(source: str, data_dir: Path, count: int) -> Iterator[list[Program]]:
    running = [Program(source, data_dir) for _ in range(count)]
    try:
        yield running
    finally:
        for program in running:
            program.__exit__(None, None, None)


def is_alive(pid: int) -> bool:
    """Whether the process runs. A zombie, which its parent has not waited for, does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
