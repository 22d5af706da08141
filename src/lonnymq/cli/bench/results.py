"""The results of a benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.cli.bench.parameters import Parameters


@dataclass(frozen=True)
class ServerInfo:
    """The server, its settings, and whether a pooler is in between."""

    database: str
    host: str
    is_pooled: bool
    settings: dict[str, str]


@dataclass(frozen=True)
class Latency:
    """Milliseconds from before the call that enqueues a message until a waiting consumer has it."""

    messages: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class FairnessResult:
    """The position at which a quiet tenant's messages were served, and the position they would have had in a
    FIFO queue.
    """

    messages: int
    noisy_backlog: int
    position_median: float
    position_worst: int
    fifo_position_median: float


@dataclass(frozen=True)
class Rate:
    """Messages per second, of all clients together. `client_cpu`: how busy each client kept one core,
    0 to 1.
    """

    what: str
    batch: int
    per_second: float
    rounds: tuple[float, ...]
    client_cpu: float
    wal_bytes_per_message: float | None

    @property
    def name(self) -> str:
        return rate_name(self.what, self.batch)


@dataclass(frozen=True)
class Results:
    schema: str
    server: ServerInfo
    parameters: Parameters
    messages_written: int
    seconds: float
    round_trip_ms: float
    commit_ms: float
    latency: Latency
    fairness: FairnessResult
    rates: tuple[Rate, ...]

    @property
    def flush_ms(self) -> float:
        """A commit without its round trip."""
        return max(0.0, self.commit_ms - self.round_trip_ms)

    def rate(self, what: str, batch: int) -> Rate:
        return next(rate for rate in self.rates if (rate.what, rate.batch) == (what, batch))


def rate_name(what: str, batch: int) -> str:
    return f"{what}, {batch} per call"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
