"""A file that records what handlers did. It survives killed processes and a database that is down.

Each line is written with one system call. Times are of a clock that all processes of a machine share.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """`what` is begin, end, or the name of the exception that stopped the handler."""

    at: int
    what: str
    order: int
    worker: str


def now() -> int:
    """In nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Ledger:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def write(self, what: str, order: int, worker: str) -> None:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(self._file, f"{now()} {what} {order} {worker}\n".encode())

    def read(self) -> list[Entry]:
        if not self._path.exists():
            return []
        lines = (line.split() for line in self._path.read_text(encoding="utf-8").splitlines())
        return [Entry(int(at), what, int(order), worker) for at, what, order, worker in lines]

    def runs(self, what: str = "begin", worker: str | None = None) -> list[int]:
        """The orders that have such an entry, in the order of the entries."""
        return [
            entry.order
            for entry in self.read()
            if entry.what == what and (worker is None or entry.worker == worker)
        ]
