"""The numbers of a report as plain data: one row per tenant, the totals, throughput and shares over time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNumbers:
    """How many messages finished, and how they were served.

    `waits` is the number of messages that the percentiles are computed from: those whose wait is known.
    `throughput` is completed messages per second. `work_s` is the time from each dequeue to its end, of
    messages that were not cancelled.
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
    """One channel. `share` is its part of all that was served, by cost, and `entitlement` the part that it
    was entitled to; both are None if nothing was served. `held_s` is how long its own limits held it back.
    """

    channel: str
    share: float | None
    entitlement: float | None
    held_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(ServiceNumbers):
    """All channels.

    `jain` is Jain's index of what each of the `competed` channels was served, divided by what it was entitled
    to; None if fewer than two competed. `misallocated` is the part of all that was served that should have
    gone to other channels; None if nothing was served.
    """

    channels: int
    jain: float | None
    competed: int
    misallocated: float | None


@dataclass(frozen=True, slots=True)
class Flow:
    """Completed messages of a channel per bucket. `channel` is None for all channels but the largest."""

    channel: str | None
    completed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShareSeries:
    """The share and the entitlement of a channel in each bucket; None where nothing was served."""

    channel: str
    share: tuple[float | None, ...]
    entitlement: tuple[float | None, ...]


@dataclass(frozen=True)
class ReportData:
    """Tenants are sorted by messages, the largest first. Times are None if nothing finished.

    `knows_limits`: the log of policies was given. Otherwise no channel counts as held back by its own limits.
    """

    tenants: tuple[TenantNumbers, ...]
    totals: Totals
    flows: tuple[Flow, ...]
    began_at: datetime | None
    ended_at: datetime | None
    bucket_ms: int
    series: tuple[ShareSeries, ...] = ()
    knows_limits: bool = True
