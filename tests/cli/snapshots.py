"""Channels and queues as `top` would have read them."""

from typing import Any

from lonnymq.commands import ChannelStatistics, QueueStatistics
from lonnymq.monitor.state import ChannelTable, QueueSnapshot

AT = 1_893_456_000_000


def channel(name: str, **values: Any) -> ChannelStatistics:
    fields: dict[str, Any] = {
        "channel": name,
        "waiting": values.get("due", 0) + values.get("scheduled", 0),
        "due": 0,
        "scheduled": 0,
        "leased": 0,
        "dead": 0,
        "oldest_due_ms": None,
        "served": 0,
        "last_served_at": None,
        "blocked_by": None if values.get("due") else "empty",
        "max_concurrency": None,
        "rate": None,
        "burst": 1,
        "paused": False,
        "max_size": None,
        "weight": 1.0,
        "inherited": [],
    }
    return ChannelStatistics(**fields | values)


def queue(**values: Any) -> QueueStatistics:
    fields: dict[str, Any] = {
        "waiting": 0,
        "due": 0,
        "scheduled": 0,
        "leased": 0,
        "dead": 0,
        "oldest_due_ms": None,
        "served": 0,
        "last_served_at": None,
        "running": None,
        "max_concurrency": None,
        "paused": False,
        "blocked_by": None,
        "workers": 0,
        "unknown_tasks": [],
    }
    return QueueStatistics(**fields | values)


def snapshot(*polls: list[ChannelStatistics], every: float = 1.0) -> QueueSnapshot:
    """After polls that each read all channels. The queue's own numbers are their sums."""
    table = ChannelTable()
    for number, channels in enumerate(polls):
        table.begin_poll()
        table.read_page(sorted(channels, key=lambda one: one.channel), number * every, is_last=True)
        served = sum(one.served for one in channels)
        waiting = sum(one.waiting for one in channels)
        found = table.snapshot(queue(served=served, waiting=waiting, due=waiting), number * every, AT)
    return found
