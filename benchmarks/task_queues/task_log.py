"""Records when tasks start and end, in a file that all processes of a worker append to.

Unlike TaskCounter it keeps every task, survives a killed worker, and works in processes that a worker forks.
"""

import asyncio
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

RECORD = struct.Struct("=qdqq")
"""The task's number, the time, whether it is an end, and the worker."""


@dataclass(frozen=True)
class TaskEvent:
    number: int
    at: float
    """On the machine's monotonic clock, which all processes share."""
    is_end: bool
    worker: int = 0
    """The id of the worker process, even if the task ran in another one that it has forked."""


class TaskLog:
    """The handler of tasks that take some seconds. One that takes no time records only its start."""

    def __init__(self, path: Path, seconds: float = 0) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._seconds = seconds
        self._worker = os.getsid(0)  # each child of the benchmark leads a session

    def add(self, number: int) -> None:
        self._write(number, is_end=False)
        if self._seconds:
            time.sleep(self._seconds)
            self._write(number, is_end=True)

    async def add_async(self, number: int) -> None:
        self._write(number, is_end=False)
        if self._seconds:
            await asyncio.sleep(self._seconds)
            self._write(number, is_end=True)

    def _write(self, number: int, *, is_end: bool) -> None:
        os.write(self._file, RECORD.pack(number, time.monotonic(), is_end, self._worker))  # one atomic append


class TaskLogReader:
    """Reads what has been appended."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._path = path
        self._file = os.open(path, os.O_RDONLY)

    def count(self) -> int:
        return os.fstat(self._file).st_size // RECORD.size

    def events(self) -> list[TaskEvent]:
        content = self._path.read_bytes()
        whole = len(content) - len(content) % RECORD.size
        return [
            TaskEvent(number, at, bool(is_end), worker)
            for number, at, is_end, worker in RECORD.iter_unpack(content[:whole])
        ]

    def close(self) -> None:
        os.close(self._file)
