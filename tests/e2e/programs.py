"""Programs that run beside a test and tell it how far they have come."""

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

PATIENCE = 30.0
FAST = {"fsync": "off"}

PRELUDE = f"""
import os, signal, sys, threading, time
from pathlib import Path
import psycopg
from lonnymq.embedded import Server
server = Server(Path(sys.argv[1]), settings={FAST!r})
def say(*words): print(*words, flush=True)
def wait(): sys.stdin.readline()
def query(text):
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        return conn.execute(text)
"""

USE_UNTIL_TOLD = """
server.start()
say(server.pid)
wait()
server.stop()
"""

USE_UNTIL_THE_END = """
server.start()
say(server.pid)
wait()
"""


class Program:
    """A Python program of its own process, with `server`, `say` and `wait` at hand."""

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

    def hear(self) -> str:
        """The next line that the program says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program ended without a word"
        return line.strip()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """A terminal sends SIGINT to the whole group of processes in the foreground."""
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> int:
        return self._process.wait(timeout=PATIENCE)


@contextmanager
def programs(source: str, data_dir: Path, count: int) -> Iterator[list[Program]]:
    running = [Program(source, data_dir) for _ in range(count)]
    try:
        yield running
    finally:
        for program in running:
            program.__exit__(None, None, None)


def is_alive(pid: int) -> bool:
    """A zombie, which its parent has not yet asked about, is not alive."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
