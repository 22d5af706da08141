"""What the queue holds."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """`served` and what follows are as of the last dispatch."""

    waiting: int | None
    due: int | None
    scheduled: int | None
    leased: int
    dead: int
    oldest_due_ms: int | None
    served: int
    last_served_at: int | None
    running: int | None
    max_concurrency: int | None
    paused: bool
    blocked_by: str | None


@dataclass(frozen=True)
class QueueStats(OneRecord[QueueStatistics]):
    function = "queue_stats"
    is_harmless = True
    record = QueueStatistics
