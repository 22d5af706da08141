"""What a run cost and gave."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.arena import Arena


@dataclass(frozen=True)
class Sample:
    """One run of one scenario by one peer."""

    rate: float
    """Messages a second."""
    wal_bytes: float
    """Bytes of WAL a message."""
    cpu_us: float
    """Microseconds of the server's CPU a message."""


def measured(arena: Arena, run: Callable[[], int]) -> Sample:
    """`run` returns how many messages it handled."""
    cpu, wal, start = arena.cpu_seconds(), arena.wal_bytes(), time.monotonic()
    messages = run()
    seconds = time.monotonic() - start
    return Sample(
        messages / seconds,
        (arena.wal_bytes() - wal) / messages,
        (arena.cpu_seconds() - cpu) * 1e6 / messages,
    )
