"""What is sent to a client process and what it answers: one JSON object per line, on its stdin and stdout."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """The queue that a client measures, and the messages it creates there."""

    address: str = field(repr=False)  # it may contain a password
    schema: str
    channels: int
    payload_bytes: int


@dataclass(frozen=True)
class Measurement:
    """What a client is to measure. `limit`: samples or messages at most, though at least one call is
    made. `pause_s`: between two samples.
    """

    name: str
    seconds: float
    limit: int
    batch: int = 1
    pause_s: float = 0.0


@dataclass(frozen=True)
class Answer:
    """`samples` are milliseconds, or for the measurement "quiet" the positions at which messages were served.
    `ahead`: how many older messages were waiting when each of them arrived.
    """

    written: int = 0
    handled: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    samples: list[float] = field(default_factory=list)
    ahead: list[int] = field(default_factory=list)
