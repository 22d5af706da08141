"""Starts the client processes and sends them requests.

Processes and not threads, as workers are, so that the Python code of one client does not slow down another.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from lonnymq.cli.bench.protocol import Answer, Measurement, Target
from lonnymq.cli.failure import UNREACHABLE, Unreachable
from lonnymq.errors import LonnyMQError

STOP_TIMEOUT_S = 5.0
# -P: do not import modules from the current directory.
CLIENT = [sys.executable, "-P", "-m", "lonnymq.cli.bench.client_process"]

Processes = Sequence[subprocess.Popen[str]]


class ClientFailed(LonnyMQError):
    """A client process exited, or a measurement in it failed."""


class Clients:
    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def one(self, measurement: Measurement) -> Answer:
        _send(self._processes[0], asdict(measurement))
        return _receive(self._processes[0])

    def all(self, measurement: Measurement) -> list[Answer]:
        """All clients measure at the same time."""
        for process in self._processes:
            _send(process, asdict(measurement))
        return [_receive(process) for process in self._processes]


@contextmanager
def start_clients(target: Target, number: int) -> Iterator[Clients]:
    """Ctrl-C does not reach the clients. The parent stops them; if it is killed, they exit when their stdin
    ends.
    """
    running: list[subprocess.Popen[str]] = []
    try:
        for _ in range(number):
            running.append(_start())  # noqa: PERF401 - if one fails to start, those before it are stopped
        for process in running:
            _send(process, asdict(target))
        yield Clients(running)
    except BaseException:
        for process in running:
            process.kill()
        raise
    finally:
        for process in running:
            _stop(process)


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        CLIENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", process_group=0
    )


def _stop(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _send(process: subprocess.Popen[str], fields: dict[str, object]) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    try:
        process.stdin.write(json.dumps(fields) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _exited(process) from None


def _receive(process: subprocess.Popen[str]) -> Answer:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    line = process.stdout.readline()
    if not line:
        raise _exited(process)
    answer = json.loads(line)
    if "error" in answer:
        kind = Unreachable if answer["code"] == UNREACHABLE else ClientFailed
        raise kind(answer["error"])
    return Answer(**answer)


def _exited(process: subprocess.Popen[str]) -> ClientFailed:
    return ClientFailed(
        f"a client process exited with code {process.wait()}",
        "see its output above, and check that there is enough memory",
    )
