"""The overview: who is loud, who waits, and what needs attention."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from lonnymq.commands import QueueStatistics
from lonnymq.web.attention import Attention, attention
from lonnymq.web.channel_row import ChannelRow, row_of
from lonnymq.web.summary import Summary
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/overview", tags=["overview"])


@dataclass(frozen=True, slots=True)
class LoudChannel:
    """`of_load` is its part of all messages that run or wait for others, 0 to 1."""

    channel: ChannelRow
    messages: int
    of_load: float


@dataclass(frozen=True, slots=True)
class Overview:
    """As of the last poll, at the server's time `at`. `loudest` have the largest loads; those are noisy that
    make others wait. All others are quiet: `quiet_waiting_count` of them wait, the oldest for
    `oldest_quiet_ms`. If `is_complete` is false, not all channels have been read yet, but `read` of them.
    """

    at: int
    read: int
    is_complete: bool
    is_settled: bool
    """False during the first ten polls: until then, too many channels may count as competing."""
    rate: float
    competing: int
    """How many channels always have something due, and are not held back by a limit of their own."""
    jain: float
    """How equally these are served, by weight: 1 if all get the same."""
    loudest: list[LoudChannel]
    noisy_count: int
    waiting_count: int
    quiet_waiting_count: int
    quiet_waiting: list[ChannelRow]
    """Those that have waited longest."""
    oldest_quiet_ms: int | None
    queue: QueueStatistics | None
    attention: list[Attention]


@router.get("")
def get_overview(view: CurrentView) -> Overview:
    """The numbers of the whole queue, and what needs attention."""
    view.check()
    summary = view.live.summary()
    snapshot = summary.snapshot
    return Overview(
        at=snapshot.at,
        read=len(snapshot.channels),
        is_complete=snapshot.is_complete,
        is_settled=snapshot.is_settled,
        rate=snapshot.total,
        competing=snapshot.competing,
        jain=snapshot.jain,
        loudest=_loudest(summary),
        noisy_count=len(summary.noisy),
        waiting_count=summary.waiting_count,
        quiet_waiting_count=summary.quiet_waiting_count,
        quiet_waiting=[row_of(summary, channel) for channel in summary.quiet_waiting],
        oldest_quiet_ms=summary.oldest_quiet_ms,
        queue=snapshot.queue,
        attention=attention(summary, view.queue.workers()),
    )


def _loudest(summary: Summary) -> list[LoudChannel]:
    snapshot = summary.snapshot
    return [
        LoudChannel(
            row_of(summary, snapshot.channels[load.channel]), load.messages, load.messages / summary.load
        )
        for load in summary.loudest
    ]
