"""Starts worker processes with `lonnymq worker`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lonnymq.demo.tasks import DSN_VARIABLE, EXIT_WITH_STDIN_VARIABLE, LIVE_VARIABLE
from lonnymq.errors import LonnyMQError

TARGET = "lonnymq.demo.tasks:app"
CONCURRENCY = 8
TIMEOUT_S = 20
CHECK_INTERVAL_S = 0.05

Processes = Sequence[subprocess.Popen[bytes]]


class WorkersFailed(LonnyMQError):
    """A worker of the demo exited, or did not start."""


@contextmanager
def start_workers(dsn: str, count: int, *, is_live: bool = False) -> Iterator[Processes]:
    """The workers are ready when the block begins, and stopped after it. Their logs are discarded. With
    `is_live`, they are slower.
    """
    with tempfile.TemporaryDirectory(prefix="lonnymq-demo-health-") as folder:
        files = [Path(folder) / f"worker-{number + 1}" for number in range(count)]
        with _started(dsn, files, is_live=is_live) as workers:
            _wait_until_ready(files, workers)
            yield workers


def check_workers(workers: Processes) -> None:
    if any(worker.poll() is not None for worker in workers):
        raise WorkersFailed("a worker of the demo exited", f"run `lonnymq worker {TARGET}` to see its error")


def _wait_until_ready(files: Sequence[Path], workers: Processes) -> None:
    """A worker writes its health file once it serves."""
    deadline = time.monotonic() + TIMEOUT_S
    while not all(file.exists() for file in files):
        check_workers(workers)
        if time.monotonic() > deadline:
            raise WorkersFailed(
                f"the workers of the demo did not start within {TIMEOUT_S} s",
                "try again on a less busy machine",
            )
        time.sleep(CHECK_INTERVAL_S)


@contextmanager
def _started(dsn: str, files: Sequence[Path], *, is_live: bool) -> Iterator[Processes]:
    command = [sys.executable, "-m", "lonnymq", "worker", TARGET, "--concurrency", str(CONCURRENCY)]
    variables = {DSN_VARIABLE: dsn, EXIT_WITH_STDIN_VARIABLE: "1"} | ({LIVE_VARIABLE: "1"} if is_live else {})
    workers = [
        subprocess.Popen(
            [*command, "--name", file.name, "--health-file", str(file)],
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for file in files
    ]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            try:
                worker.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                worker.kill()
            worker.communicate()
