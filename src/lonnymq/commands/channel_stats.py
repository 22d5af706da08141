"""What a channel holds, and why it is not being served."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import Int, Numeric, Text


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """Counts of `scheduled` and `dead` stop at the cap."""

    channel: str
    waiting: int
    due: int
    scheduled: int
    leased: int
    dead: int
    oldest_due_ms: int | None
    served: int
    last_served_at: int | None
    blocked_by: str | None
    max_concurrency: int | None
    release_interval_ms: int
    paused: bool
    max_size: int | None
    weight: Numeric


@dataclass(frozen=True)
class ChannelStats(OneRecord[ChannelStatistics]):
    function = "channel_stats"
    is_harmless = True
    record = ChannelStatistics

    channel: Text
    cap: Int = 10000
