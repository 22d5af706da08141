"""A child process, as its parent sees it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.task_queues.order import Order

CHECKOUT = Path(__file__).resolve().parents[2]
LONGEST_END_SECONDS = 30
READY = "ready"


class ChildFailed(Exception):
    """A worker or a producer ended in another way than it should."""


class Child:
    """Started with an order; it waits, ready, until it is told to begin. Ended by SIGTERM on the way out."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed on the way out
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.task_queues"],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )

    def __enter__(self) -> Self:
        self._say(self._order.line())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(LONGEST_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        failure = self._failure(code) if code not in {0, -signal.SIGTERM} else None
        self._complaints.close()
        if failure is not None and error is None:
            raise failure

    def wait_until_ready(self) -> None:
        said = self._hear()
        assert said == READY, said

    def begin(self) -> None:
        self._say("\n")

    def answer(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self._hear())

    def check_runs(self) -> None:
        if (code := self._process.poll()) is not None:
            raise self._failure(code)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def _say(self, line: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(line)
        stdin.flush()

    def _hear(self) -> str:
        stdout = self._process.stdout
        assert stdout is not None
        line = stdout.readline().strip()
        if not line:
            raise self._failure(self._process.wait(LONGEST_END_SECONDS))
        return line

    def _failure(self, code: int) -> ChildFailed:
        self._complaints.seek(0)
        said = self._complaints.read()[-2000:].decode(errors="replace")
        return ChildFailed(f"{type(self._order).__name__} of {self._order.queue} ended with {code}:\n{said}")
