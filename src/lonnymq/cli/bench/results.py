"""What a bench found."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.cli.bench.parameters import Terms

_NAMES = {"create": "create", "consume": "take and complete"}


@dataclass(frozen=True)
class Surroundings:
    """The server, as far as it tells, and the way to it."""

    database: str
    host: str
    is_pooled: bool
    settings: dict[str, str]


@dataclass(frozen=True)
class Lone:
    """How long a message takes from before the call that creates it to a consumer that waited for it."""

    messages: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Fairness:
    """As which one a quiet tenant's message was served, and as which one it had been in one line for all."""

    messages: int
    noisy_backlog: int
    served_as_median: float
    served_as_worst: int
    in_one_line_median: float


@dataclass(frozen=True)
class Rate:
    """Messages a second, of all clients. `client_cpu`: of a core for each of them, 1 is all of it."""

    what: str
    batch: int
    per_second: float
    rounds: tuple[float, ...]
    client_cpu: float
    wal_bytes_per_message: float | None

    @property
    def name(self) -> str:
        return named(self.what, self.batch)


@dataclass(frozen=True)
class Results:
    schema: str
    surroundings: Surroundings
    terms: Terms
    messages_written: int
    seconds: float
    round_trip_ms: float
    commit_ms: float
    lone_message: Lone
    fairness: Fairness
    rates: tuple[Rate, ...]

    @property
    def flush_ms(self) -> float:
        """A commit, without the way there and back."""
        return max(0.0, self.commit_ms - self.round_trip_ms)

    def rate(self, what: str, batch: int) -> Rate:
        return next(rate for rate in self.rates if (rate.what, rate.batch) == (what, batch))


def named(what: str, batch: int) -> str:
    return f"{_NAMES[what]}, {batch} a call"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def part(values: Sequence[float], share: float) -> float:
    """So large a share of them is no larger.

    >>> part([1, 2, 3, 4], 0.5), part([1, 2, 3, 4], 0.99)
    (2, 4)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
