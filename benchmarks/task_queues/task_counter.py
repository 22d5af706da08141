"""Counts the tasks that worker processes run, in memory shared with the parent process."""

import mmap
import struct
import threading
import time
from pathlib import Path
from typing import Self

SLOT = struct.Struct("=dqq")
"""When the last task started, how many have started, and the sum of their arguments."""


class TaskCounter:
    """One slot per worker process, in a file that all of them map."""

    def __init__(self, path: Path, slot: int = 0) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._at = slot * SLOT.size
        self._lock = threading.Lock()  # plain functions run in threads
        self._count = self._sum = 0

    @classmethod
    def make(cls, path: Path, slots: int) -> Self:
        path.write_bytes(bytes(slots * SLOT.size))
        return cls(path)

    def add(self, number: int) -> None:
        """Record that the task with this number runs."""
        with self._lock:
            self._count += 1
            self._sum += number
            SLOT.pack_into(self._memory, self._at, time.monotonic(), self._count, self._sum)

    async def add_async(self, number: int) -> None:
        self.add(number)

    def count(self) -> int:
        return sum(count for _, count, _ in self._slots())

    def has_each_once(self, tasks: int) -> bool:
        """Whether each of the tasks numbered from 0 ran exactly once."""
        slots = self._slots()
        return (sum(count for _, count, _ in slots), sum(numbers for *_, numbers in slots)) == (
            tasks,
            tasks * (tasks - 1) // 2,
        )

    def last_at(self) -> float:
        return max(at for at, *_ in self._slots())

    def close(self) -> None:
        self._memory.close()

    def _slots(self) -> list[tuple[float, int, int]]:
        return list(SLOT.iter_unpack(self._memory[:]))
