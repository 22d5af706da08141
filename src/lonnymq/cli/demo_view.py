"""The tables that the demo shows: while it runs, and at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.table import Table

from lonnymq.commands import ChannelStatistics
from lonnymq.demo import NOISY, DemoResult, TenantResult
from lonnymq.formatting import duration
from lonnymq.quantile import quantile

BAR = 18
MIN_S = 0.01  # where the bars begin; the scale is logarithmic
REMARKS = {
    "concurrency": "concurrency limit",
    "rate": "rate limit",
    "empty": "",
    "scheduled": "later",
}


@dataclass(frozen=True)
class Progress:
    """A channel, and how many of its messages were served since the last update."""

    channel: str
    waiting: int
    served: int
    newly_served: int
    blocked_by: str


@dataclass
class ServedCounter:
    """How many messages each channel had served at the last update."""

    served: dict[str, int] = field(default_factory=dict)

    def progress(self, channels: Sequence[ChannelStatistics]) -> list[Progress]:
        found = [
            Progress(
                each.channel,
                each.waiting,
                each.served,
                each.served - self.served.get(each.channel, 0),
                REMARKS.get(each.blocked_by or "", each.blocked_by or ""),
            )
            for each in channels
        ]
        self.served = {each.channel: each.served for each in channels}
        return sorted(found, key=lambda each: (each.channel != NOISY.channel, each.channel))


def progress(channels: Sequence[Progress]) -> Table:
    """One row per tenant. The bars show how much each was served since the last update."""
    table = Table(box=box.SIMPLE, title="Messages served per tenant")
    table.add_column("tenant", no_wrap=True, min_width=12)
    table.add_column("waiting", justify="right", min_width=8)
    table.add_column("served", justify="right", min_width=7)
    table.add_column("just now", no_wrap=True, min_width=BAR)
    table.add_column("", no_wrap=True, min_width=22)
    largest = max((each.newly_served for each in channels), default=0) or 1
    for each in channels:
        bar = "█" * math.ceil(each.newly_served / largest * BAR)
        table.add_row(each.channel, str(each.waiting), str(each.served), bar, each.blocked_by)
    return table


def table(result: DemoResult) -> Table:
    """The median wait of each tenant, and what it would have been in a FIFO queue."""
    table = Table(
        box=box.SIMPLE,
        title="Median wait per tenant",
        caption="█ with LonnyMQ   ░ in a FIFO queue",
    )
    table.add_column("tenant", no_wrap=True)
    for name in ("served", "dead", "LonnyMQ", "FIFO"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    longest = max(max(each.median_wait, each.fifo_median_wait) for each in result.tenants)
    for each in result.tenants:
        table.add_row(
            f"{each.channel}, urgent" if each.is_urgent else each.channel,
            str(each.completed),
            str(each.dead or ""),
            *map(seconds, (each.median_wait, each.fifo_median_wait)),
            bars(each, longest),
        )
    return table


def bars(each: TenantResult, longest: float) -> str:
    """Both waits in one bar, on a logarithmic scale."""
    here, fifo = (length(wait, longest) for wait in (each.median_wait, each.fifo_median_wait))
    return "█" * here + "░" * (fifo - here)


def length(wait: float, longest: float) -> int:
    """
    >>> length(0.01, 100), length(1, 100), length(100, 100)
    (0, 9, 18)
    """
    scale = math.log10(max(longest, 10 * MIN_S) / MIN_S)
    return round(BAR * math.log10(max(wait, MIN_S) / MIN_S) / scale)


def seconds(wait: float) -> str:
    return duration(wait * 1000, digits=2)


def summary(result: DemoResult) -> str:
    quiet = [each for each in result.tenants if not each.remark]
    here = quantile([each.median_wait for each in quiet], 0.5)
    fifo = quantile([each.fifo_median_wait for each in quiet], 0.5)
    return (
        f"{result.messages:,} messages in {result.seconds:.0f} s. {NOISY.channel} sent its {NOISY.backlog:,}"
        f" first. A message of one of the {len(quiet)} quiet tenants waited {seconds(here)} (median);"
        f" in a FIFO queue it would have waited {seconds(fifo)}."
    )
