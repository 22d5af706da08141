"""How several processes share one data folder.

Two files are locked with flock, which the kernel releases when a process exits for whatever reason:

    lock    locked exclusively while a process starts or stops the server users   locked in shared mode
    while a process uses the server; a process that can turn this into an exclusive
            lock is the last one, and stops the server

No counters or process ids are stored, so none can be wrong after kill -9.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(data_dir: Path) -> Iterator[None]:
    """Keep other processes and threads from starting or stopping a server on this folder."""
    descriptor = _open(data_dir / "lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class ServerUse:
    """This process uses the server of a folder, until `end`."""

    def __init__(self, data_dir: Path) -> None:
        self._descriptor = _open(data_dir / "users")
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def is_last(self) -> bool:
        """Whether no other process uses it. Call it within `exclusive`, so that none can start to use it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def end(self) -> None:
        os.close(self._descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
