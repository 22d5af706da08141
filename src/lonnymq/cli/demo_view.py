"""What the demo looks like: while it runs, and at its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.table import Table

from lonnymq.commands import ChannelStatistics
from lonnymq.demo import NOISY, Outcome, Served

BAR = 18
LEAST_S = 0.01  # where the bars begin; each tenfold is as long as the one before
REMARKS = {"concurrency": "at its limit", "rate": "waits for its interval", "empty": "", "scheduled": "later"}


@dataclass(frozen=True)
class Progress:
    """How a channel stands, and how much of it was served since the last look."""

    channel: str
    waiting: int
    served: int
    lately: int
    blocked_by: str


@dataclass
class Seen:
    """What was served at the last look."""

    served: dict[str, int] = field(default_factory=dict)

    def after(self, channels: Sequence[ChannelStatistics]) -> list[Progress]:
        progress = [
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
        return sorted(progress, key=lambda each: (each.channel != NOISY.channel, each.channel))


def progress(channels: Sequence[Progress]) -> Table:
    """One line a tenant; the bars show who was served just now."""
    table = Table(box=box.SIMPLE, title="Who is being served")
    table.add_column("tenant", no_wrap=True, min_width=12)
    table.add_column("waiting", justify="right", min_width=8)
    table.add_column("served", justify="right", min_width=7)
    table.add_column("just now", no_wrap=True, min_width=BAR)
    table.add_column("", no_wrap=True, min_width=22)
    most = max((each.lately for each in channels), default=0) or 1
    for each in channels:
        bar = "█" * math.ceil(each.lately / most * BAR)
        table.add_row(each.channel, str(each.waiting), str(each.served), bar, each.blocked_by)
    return table


def table(shown: Outcome) -> Table:
    """Each tenant's wait, beside what it would have been in a plain queue, as numbers and as bars."""
    table = Table(
        box=box.SIMPLE,
        title="How long did half of the messages wait?",
        caption="█ here   ░ in a plain queue, FIFO",
    )
    table.add_column("tenant", no_wrap=True)
    for name in ("served", "dead", "here", "with FIFO"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    longest = max(max(each.median_wait, each.fifo_median_wait) for each in shown.tenants)
    for each in shown.tenants:
        table.add_row(
            f"{each.channel}, urgent" if each.is_urgent else each.channel,
            str(each.completed),
            str(each.dead or ""),
            *map(seconds, (each.median_wait, each.fifo_median_wait)),
            bars(each, longest),
        )
    return table


def bars(each: Served, longest: float) -> str:
    """Both waits in one bar, on a scale on which tenfold is always as far."""
    here, fifo = (length(wait, longest) for wait in (each.median_wait, each.fifo_median_wait))
    return "█" * here + "░" * (fifo - here)


def length(wait: float, longest: float) -> int:
    """
    >>> length(0.01, 100), length(1, 100), length(100, 100)
    (0, 9, 18)
    """
    scale = math.log10(max(longest, 10 * LEAST_S) / LEAST_S)
    return round(BAR * math.log10(max(wait, LEAST_S) / LEAST_S) / scale)


def seconds(wait: float) -> str:
    """
    >>> seconds(0.0123), seconds(1.234)
    ('12 ms', '1.2 s')
    """
    return f"{wait * 1000:.0f} ms" if wait < 1 else f"{wait:.1f} s"


def summary(shown: Outcome) -> str:
    quiet = [each for each in shown.tenants if not each.remark]
    here = sorted(each.median_wait for each in quiet)[len(quiet) // 2]
    fifo = sorted(each.fifo_median_wait for each in quiet)[len(quiet) // 2]
    return (
        f"{shown.messages:,} messages in {shown.seconds:.0f} s. {NOISY.channel} sent its {NOISY.backlog:,}"
        f" first. A message of one of the {len(quiet)} quiet tenants waited {seconds(here)};"
        f" in a plain queue it would have waited {seconds(fifo)}."
    )
