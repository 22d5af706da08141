"""What a client is told to measure, and what it answers: an object a line, on its stdin and stdout."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Site:
    """Where a client measures, and with what."""

    address: str
    schema: str
    channels: int
    content_bytes: int


@dataclass(frozen=True)
class Order:
    """`most`: samples or messages; at least one is always had. `pause_s`: between two samples."""

    measure: str
    seconds: float
    most: int
    batch: int = 1
    pause_s: float = 0.0


@dataclass(frozen=True)
class Answer:
    """`samples` are milliseconds; of waits for a turn, messages. `ahead`: what waited longer, at each."""

    written: int = 0
    handled: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    samples: list[float] = field(default_factory=list)
    ahead: list[int] = field(default_factory=list)
