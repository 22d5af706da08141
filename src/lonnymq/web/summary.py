"""What stands out in the numbers of one poll. It is computed once per poll, for all open pages."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

from lonnymq.monitor.fairness import Standing
from lonnymq.monitor.noise import Load
from lonnymq.monitor.state import ChannelState, QueueSnapshot, competes

MOST = 5
HELD_BACK = frozenset({"paused", "concurrency", "rate"})
"""The states in which a channel is held back by itself, and not by others."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Each list has the few that stand out most, and each number counts all."""

    snapshot: QueueSnapshot
    load: int
    """Messages that run, or that are due and wait for others."""
    loudest: tuple[Load, ...]
    """The largest loads, noisy or not."""
    noisy: frozenset[str]
    """The channels that are noisy, or were at one of the last polls."""
    oldest_quiet_ms: int | None
    """As in the snapshot, for the channels that are not among the noisy ones."""
    waiting_count: int
    """Channels that have something due, and that no limit of their own holds back."""
    quiet_waiting_count: int
    """Those that wait and are not noisy."""
    quiet_waiting: tuple[ChannelState, ...]
    """The ones of these that have waited longest."""
    starved: tuple[ChannelState, ...]
    """Those that get less than they are owed."""
    starved_count: int
    held_back: tuple[ChannelState, ...]
    """Those with due messages that their own pause or limit holds back, longest first."""
    held_back_count: int
    full: tuple[ChannelState, ...]
    """Those that hold as many messages as they may: more are refused."""
    full_count: int


def summarise(snapshot: QueueSnapshot, lately_noisy: frozenset[str] = frozenset()) -> Summary:
    """A channel is noisy only while others wait, which changes from poll to poll if these are served quickly.
    So that pages do not flicker, those count that were noisy lately.
    """
    noisy = frozenset(name for name in lately_noisy | snapshot.noisy if name in snapshot.channels)
    total = waiting = 0
    loads: list[tuple[int, ChannelState]] = []
    quiet: list[ChannelState] = []
    starved: list[ChannelState] = []
    held_back: list[ChannelState] = []
    full: list[ChannelState] = []
    for channel in snapshot.channels.values():  # 100,000 of them are many for Python
        stats = channel.stats
        messages = stats.leased
        if stats.due:
            if competes(stats):
                messages += stats.due
                waiting += 1
                if stats.channel not in noisy:
                    quiet.append(channel)
                if channel.is_backlogged and _is_starved(snapshot, channel):
                    starved.append(channel)
            elif channel.state in HELD_BACK:
                held_back.append(channel)
        if messages:
            total += messages
            loads.append((messages, channel))
        if stats.max_size is not None and stats.waiting + stats.leased >= stats.max_size:
            full.append(channel)
    oldest_of_quiet = _oldest(quiet)
    loudest = heapq.nlargest(MOST, loads, key=itemgetter(0))
    return Summary(
        snapshot,
        total,
        tuple(channel.load for _, channel in loudest),
        noisy,
        oldest_of_quiet[0].stats.oldest_due_ms if oldest_of_quiet else None,
        waiting,
        len(quiet),
        oldest_of_quiet,
        tuple(heapq.nsmallest(MOST, starved, key=lambda channel: snapshot.of_fair(channel) or 0.0)),
        len(starved),
        _oldest(held_back),
        len(held_back),
        _oldest(full),
        len(full),
    )


def _is_starved(snapshot: QueueSnapshot, channel: ChannelState) -> bool:
    fair = snapshot.fair
    if fair is None or channel.rate is None or channel.rate >= fair * channel.stats.weight:
        return False
    return snapshot.standing(channel) is Standing.BELOW


def _oldest(channels: Iterable[ChannelState]) -> tuple[ChannelState, ...]:
    return tuple(heapq.nlargest(MOST, channels, key=lambda channel: channel.stats.oldest_due_ms or 0))
