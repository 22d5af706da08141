"""Measure one run: rate, WAL and CPU time."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.bench_server import BenchServer


@dataclass(frozen=True)
class Sample:
    """One run of one scenario by one peer."""

    rate: float
    """Messages per second."""
    wal_bytes: float
    """Bytes of WAL per message."""
    cpu_us: float
    """Microseconds of the server's CPU per message."""


def measured(server: BenchServer, run: Callable[[], int]) -> Sample:
    """Call `run`, which returns how many messages it handled, and measure it."""
    cpu, wal, start = server.cpu_seconds(), server.wal_bytes(), time.monotonic()
    messages = run()
    seconds = time.monotonic() - start
    return Sample(
        messages / seconds,
        (server.wal_bytes() - wal) / messages,
        (server.cpu_seconds() - cpu) * 1e6 / messages,
    )
