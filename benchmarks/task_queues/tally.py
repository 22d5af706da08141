"""What worker processes have done, in memory that they share with those who watch them."""

import mmap
import struct
import threading
import time
from pathlib import Path
from typing import Self

SLOT = struct.Struct("=dqq")
"""When a task was last begun, how many were, and the sum of their arguments."""


class Tally:
    """A slot for every worker process, in a file that all of them map."""

    def __init__(self, path: Path, slot: int = 0) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._at = slot * SLOT.size
        self._lock = threading.Lock()  # plain functions are run in threads
        self._count = self._sum = 0

    @classmethod
    def make(cls, path: Path, slots: int) -> Self:
        path.write_bytes(bytes(slots * SLOT.size))
        return cls(path)

    def add(self, number: int) -> None:
        """The task of this number runs."""
        with self._lock:
            self._count += 1
            self._sum += number
            SLOT.pack_into(self._memory, self._at, time.monotonic(), self._count, self._sum)

    def count(self) -> int:
        return sum(count for _, count, _ in self._slots())

    def has_each_once(self, tasks: int) -> bool:
        """Whether those numbered from 0 were run, none left out in favour of one that was run twice."""
        slots = self._slots()
        return (sum(count for _, count, _ in slots), sum(of_slot for *_, of_slot in slots)) == (
            tasks,
            tasks * (tasks - 1) // 2,
        )

    def last_at(self) -> float:
        return max(at for at, *_ in self._slots())

    def close(self) -> None:
        self._memory.close()

    def _slots(self) -> list[tuple[float, int, int]]:
        return list(SLOT.iter_unpack(self._memory[:]))
