"""What a report holds: plain numbers, a row a tenant, and how they went over time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Tenant:
    """One channel.

    `waits` is how many messages the percentiles are over: those whose wait is known. `work_s` is the time
    from the last dequeue to the end, of what was not cancelled. `share` and `fair_share` are None for a
    channel that never competed: see lonnymq.spark.reports.fair_share.
    """

    channel: str
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
    share: float | None
    fair_share: float | None
    work_s: float


@dataclass(frozen=True, slots=True)
class Totals:
    """All channels. Throughput is what was completed a second, from `began_at` to `ended_at`.

    `jain` is Jain's index, `jain_best` what it would be at best, as messages are not divided; both are None
    when no two channels ever competed. `contended` is how many messages were served while they did.
    """

    channels: int
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
    jain: float | None
    jain_best: float | None
    contended: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Completed messages of a channel, bucket by bucket. No channel: all but the largest."""

    channel: str | None
    completed: tuple[int, ...]


@dataclass(frozen=True)
class Numbers:
    """Tenants are in the order of their messages, the largest first. Times are None if nothing finished."""

    tenants: tuple[Tenant, ...]
    totals: Totals
    flows: tuple[Flow, ...]
    began_at: datetime | None
    ended_at: datetime | None
    bucket_ms: int
