"""The orders in which channels are listed, and pages of such a list."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from lonnymq.monitor.state import ChannelState, QueueSnapshot

FEW = 0.1
"""Up to this part of the channels, a heap finds the first ones quicker than sorting all."""


class Order(StrEnum):
    """Largest first, except by name.

    STARVED: channels that always have something waiting and get least by weight. BLOCKED: by what blocks
    them, then by backlog. NOISY: noisy channels, then the others, by load.
    """

    STARVED = "starved"
    OLDEST = "oldest"
    BACKLOG = "backlog"
    BLOCKED = "blocked"
    NOISY = "noisy"
    DUE = "due"
    LEASED = "leased"
    RATE = "rate"
    NAME = "name"


_BLOCKED = ("paused", "concurrency", "rate", "queue limit", "ready", "scheduled", "empty")
_BLOCKED_RANK = {state: rank for rank, state in enumerate(_BLOCKED)}


def _oldest(channel: ChannelState) -> int:
    oldest = channel.stats.oldest_due_ms
    return 1 if oldest is None else -oldest


_KEYS: dict[Order, Callable[[ChannelState], Any]] = {
    Order.OLDEST: _oldest,
    Order.BACKLOG: lambda channel: -channel.stats.waiting,
    Order.BLOCKED: lambda channel: (_BLOCKED_RANK[channel.state], -channel.stats.waiting),
    Order.DUE: lambda channel: -channel.stats.due,
    Order.LEASED: lambda channel: -channel.stats.leased,
    Order.RATE: lambda channel: -(channel.rate or 0.0),
}


def in_order(snapshot: QueueSnapshot, order: Order, prefix: str = "") -> list[ChannelState]:
    """All channels whose name has the prefix; equal ones by rate, then by name."""
    return sorted(_matching(snapshot, prefix), key=_key(snapshot, order))


def page_in_order(
    snapshot: QueueSnapshot, order: Order, limit: int, offset: int = 0, prefix: str = ""
) -> list[ChannelState]:
    """Some of `in_order`: at most `limit`, without the first `offset`."""
    found = _matching(snapshot, prefix)
    if offset + limit > FEW * len(found):
        return sorted(found, key=_key(snapshot, order))[offset : offset + limit]
    return heapq.nsmallest(offset + limit, found, key=_key(snapshot, order))[offset:]


def _matching(snapshot: QueueSnapshot, prefix: str) -> list[ChannelState]:
    channels = snapshot.channels
    if not prefix:
        return list(channels.values())
    return [channel for name, channel in channels.items() if name.startswith(prefix)]


def _key(snapshot: QueueSnapshot, order: Order) -> Callable[[ChannelState], Any]:
    if order == Order.NAME:
        return lambda channel: channel.stats.channel
    noisy = snapshot.noisy if order == Order.NOISY else frozenset()

    def noisy_first(channel: ChannelState) -> tuple[bool, int]:
        return channel.stats.channel not in noisy, -channel.load.messages

    def starved_first(channel: ChannelState) -> tuple[int, float]:
        """A channel whose rate is not known yet comes after those that are known to get little."""
        rate = (channel.rate or 0.0) / channel.stats.weight
        if not channel.is_backlogged or snapshot.is_limited(channel):
            return 2, -rate
        return (1, 0.0) if channel.rate is None else (0, rate)

    first = starved_first if order == Order.STARVED else _KEYS.get(order, noisy_first)
    return lambda channel: (first(channel), -(channel.rate or 0.0), channel.stats.channel)
