"""The numbers of a report as plain data: one row per tenant, the totals, and throughput over time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNumbers:
    """How many messages finished, and how they were served.

    `waits` is the number of messages that the percentiles are computed from: those whose wait is known.
    `throughput` is completed messages per second. `work_s` is the time from the last dequeue to the finish,
    of messages that were not cancelled.
    """

    messages: int
    completed: int
    dead: int
    cancelled: int
    retries: int
    waits: int
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    wait_p99_ms: float | None
    throughput: float | None
    work_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantNumbers(ServiceNumbers):
    """One channel. `share` and `fair_share` are None for a channel that never competed: see `fair_share`."""

    channel: str
    share: float | None
    fair_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(ServiceNumbers):
    """All channels.

    `jain` is Jain's index, `jain_best` its highest possible value, which is below 1 where messages cannot be
    distributed evenly. Both are None if no two channels ever competed. `contended` is the number of messages
    that were served while channels competed.
    """

    channels: int
    jain: float | None
    jain_best: float | None
    contended: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Completed messages of a channel per bucket. `channel` is None for all channels but the largest."""

    channel: str | None
    completed: tuple[int, ...]


@dataclass(frozen=True)
class ReportData:
    """Tenants are sorted by messages, the largest first. Times are None if nothing finished."""

    tenants: tuple[TenantNumbers, ...]
    totals: Totals
    flows: tuple[Flow, ...]
    began_at: datetime | None
    ended_at: datetime | None
    bucket_ms: int
