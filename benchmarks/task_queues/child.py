"""A child process, from the parent's side."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.task_queues.child_command import ChildCommand

CHECKOUT = Path(__file__).resolve().parents[2]
STOP_TIMEOUT_SECONDS = 30
ANSWER_TIMEOUT_SECONDS = 900  # no command takes longer; a library that hangs must not stop the others
READY = "ready"


class ChildFailed(Exception):
    """A worker or producer process failed."""


class Child:
    """A process that prepares a command and runs it after `begin`. Leaving the context sends it SIGTERM."""

    def __init__(self, command: ChildCommand, python: Path | str = sys.executable) -> None:
        self._command = command
        self._is_killed = False
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.task_queues"],
            cwd=CHECKOUT,
            env=os.environ | {"PYTHONPATH": str(CHECKOUT / "src")},
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def __enter__(self) -> Self:
        self._write_line(self._command.line())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        finally:
            self._kill_group()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        failure = self._failure(code) if code not in {0, -signal.SIGTERM} and not self._is_killed else None
        self._stderr.close()
        if failure is not None and error is None:
            raise failure

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Kill the process and all that it has started, as when their machine stops."""
        self._is_killed = True
        self._kill_group()

    def wait_until_ready(self) -> None:
        line = self._read_line()
        assert line == READY, line

    def begin(self) -> None:
        self._write_line("\n")

    def result(self) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self._read_line())

    def check_is_running(self) -> None:
        if (code := self._process.poll()) is not None:
            raise self._failure(code)

    def cpu_seconds(self) -> float:
        """CPU time of the process and of those that it has started."""
        ticks = sum(sum(map(int, fields[11:15])) for _, fields in self._group())
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Memory of the process and of those that it has started; what they share is counted once."""
        total = 0
        for process, _ in self._group():
            try:
                total += int(
                    re.findall(r"^Pss:\s+(\d+) kB", (process / "smaps_rollup").read_text(), re.MULTILINE)[0]
                )
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue  # the process exited in the meantime
        return total * 1024

    def _group(self) -> Iterator[tuple[Path, list[str]]]:
        """The folders in /proc of its processes, and the fields of their stat from the third on."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process exited in the meantime
            if int(fields[3]) == self._process.pid:  # the session, which the child leads
                yield stat.parent, fields

    def _kill_group(self) -> None:
        for process, _ in self._group():
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)

    def _write_line(self, line: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(line)
        stdin.flush()

    def _read_line(self) -> str:
        stdout = self._process.stdout
        assert stdout is not None
        stuck = threading.Timer(ANSWER_TIMEOUT_SECONDS, self._kill_group)
        stuck.daemon = True
        stuck.start()
        try:
            line = stdout.readline().strip()
        finally:
            stuck.cancel()
        if not line:
            raise self._failure(self._process.wait(STOP_TIMEOUT_SECONDS))
        return line

    def _failure(self, code: int) -> ChildFailed:
        self._stderr.seek(0)
        output = self._stderr.read()[-2000:].decode(errors="replace")
        return ChildFailed(
            f"{type(self._command).__name__} of {self._command.queue} exited with {code}:\n{output}"
        )
