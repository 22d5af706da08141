"""How several processes share one data folder.

Two files are locked with flock, which the kernel releases however a process ends:

    lock    held alone while starting or stopping, so that two processes never do it at once
    users   held in shared mode for as long as a process uses the server; whoever leaves and can turn its hold
            into an exclusive one is the last, and stops the server

No count and no process id is written down, so none can be stale after kill -9.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """No other process or thread starts or stops a server on this folder meanwhile."""
    descriptor = _open(data_dir / "lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Use:
    """One user's hold on the server of a folder."""

    def __init__(self, data_dir: Path) -> None:
        self._descriptor = _open(data_dir / "users")
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def is_last(self) -> bool:
        """Ask only while `alone`: otherwise a new user may come in between."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def end(self) -> None:
        os.close(self._descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
