"""Real worker processes, as `lonnymq worker` starts them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lonnymq.demo.tasks import DSN_VARIABLE, HELD_VARIABLE
from lonnymq.errors import LonnyMQError

TARGET = "lonnymq.demo.tasks:app"
CONCURRENCY = 8
PATIENCE_S = 20
TICK_S = 0.05

Processes = Sequence[subprocess.Popen[bytes]]


class WorkersFailed(LonnyMQError):
    """The demo's workers ended, or did not begin."""


@contextmanager
def workers(dsn: str, count: int) -> Iterator[Processes]:
    """Ready when the block begins; told to end, and waited for, with it. What they log is not shown."""
    with tempfile.TemporaryDirectory(prefix="lonnymq-demo-health-") as folder:
        files = [Path(folder) / f"worker-{number + 1}" for number in range(count)]
        with _started(dsn, files) as running:
            _wait_for(files, running)
            yield running


def check(running: Processes) -> None:
    if any(worker.poll() is not None for worker in running):
        raise WorkersFailed("a worker of the demo ended", f"see what `lonnymq worker {TARGET}` says")


def _wait_for(files: Sequence[Path], running: Processes) -> None:
    last = time.monotonic() + PATIENCE_S
    while not all(file.exists() for file in files):
        check(running)
        if time.monotonic() > last:
            raise WorkersFailed("the demo's workers do not begin", "try again on a machine with less to do")
        time.sleep(TICK_S)


@contextmanager
def _started(dsn: str, files: Sequence[Path]) -> Iterator[Processes]:
    command = [sys.executable, "-m", "lonnymq", "worker", TARGET, "--concurrency", str(CONCURRENCY)]
    running = [
        subprocess.Popen(
            [*command, "--name", file.name, "--health-file", str(file)],
            env=os.environ | {DSN_VARIABLE: dsn, HELD_VARIABLE: "1"},
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for file in files
    ]
    try:
        yield running
    finally:
        for worker in running:
            worker.terminate()
        for worker in running:
            try:
                worker.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                worker.kill()
            worker.communicate()
