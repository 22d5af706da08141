"""A channel as lists show it: its numbers, its share, and its state in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lonnymq.commands import ChannelStatistics
from lonnymq.monitor.fairness import Standing
from lonnymq.monitor.rates import ServedHistory
from lonnymq.monitor.state import ChannelState, QueueSnapshot
from lonnymq.rules.entitlement import BoundBy
from lonnymq.web.summary import Summary
from lonnymq.web.view import View

CAP = 1_000
"""Scheduled and dead messages of a channel are counted up to this number."""


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """`state` is `ready`, or why nothing is served: `paused`, `concurrency`, `rate`, `queue limit`,
    `scheduled` or `empty`; `words` says it in a few words. `scheduled` and `dead` are counted up to 1,000.

    Rates are in messages per second, and None while they are not known. `share` is its part of all that is
    served, 0 to 1. `entitlement` is the part that it is entitled to. `bound_by` says what bounds that:
    `demand` if it gets all that it asks for, `limit` if its own limit holds it back, and `share` if it
    competes. A person who sees only some channels does not get these, nor `standing` and `is_noisy`: they
    depend on others.
    """

    channel: str
    state: str
    words: str
    waiting: int
    due: int
    scheduled: int
    leased: int
    dead: int
    oldest_due_ms: int | None
    weight: float
    rate: float | None
    share: float | None
    entitlement: float | None
    of_fair: float | None
    """Its rate divided by its entitlement: 1.0 is exactly fair."""
    bound_by: BoundBy | None
    standing: Standing | None
    is_noisy: bool


def row_of(summary: Summary, channel: ChannelState) -> ChannelRow:
    """For a person who sees the whole queue."""
    snapshot = summary.snapshot
    entitlement = snapshot.entitlement(channel)
    return replace(
        own_row_of(channel),
        share=snapshot.share(channel),
        entitlement=snapshot.entitled_share(channel),
        of_fair=snapshot.of_fair(channel),
        bound_by=None if entitlement is None else entitlement.bound_by,
        standing=snapshot.standing(channel),
        is_noisy=channel.name in summary.noisy,
    )


def own_row_of(channel: ChannelState) -> ChannelRow:
    """Only what does not depend on other channels."""
    stats = channel.stats
    return ChannelRow(
        channel=stats.channel,
        state=channel.state,
        words=state_words(stats),
        waiting=stats.waiting,
        due=stats.due,
        scheduled=stats.scheduled,
        leased=stats.leased,
        dead=stats.dead,
        oldest_due_ms=stats.oldest_due_ms,
        weight=stats.weight,
        rate=channel.rate,
        share=None,
        entitlement=None,
        of_fair=None,
        bound_by=None,
        standing=None,
        is_noisy=False,
    )


def state_words(stats: ChannelStatistics) -> str:
    if stats.paused:
        return "paused"
    words = {
        "paused": "the whole queue is paused",
        "concurrency": f"at its limit of {stats.max_concurrency} running",
        "rate": f"held to its rate of {stats.rate}",
        "queue limit": "the whole queue is at its limit",
        "scheduled": "nothing is due yet",
        "empty": "running" if stats.leased else "idle",
    }
    return words.get(stats.blocked_by or "", "waits for its turn")


def read_channel(view: View, name: str) -> ChannelState:
    """The channel as it is now, with its rate as the polls know it. A person who sees only some channels does
    not learn that the whole queue is at its limit.
    """
    view.live.look_at([name])
    stats = view.queue.channel(name).stats(cap=CAP)
    if view.access.channels is not None and stats.blocked_by == "queue limit":
        stats = replace(stats, blocked_by=None)
    known = view.live.snapshot().channels.get(name)
    history = ServedHistory() if known is None else known.history
    return ChannelState(stats, history, history.rate, history.is_backlogged)


def own_snapshot(view: View, names: Iterable[str]) -> QueueSnapshot:
    """A snapshot of these channels alone."""
    whole = view.live.snapshot()
    channels = {name: read_channel(view, name) for name in names}
    return QueueSnapshot(
        whole.poll, whole.at, None, ServedHistory(), channels, is_complete=True, polls_per_pass=1
    )
