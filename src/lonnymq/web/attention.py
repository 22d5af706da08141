"""What needs attention, in words, the most urgent first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlencode

from lonnymq.commands import ListedWorker, QueueStatistics
from lonnymq.formatting import SECOND, count, duration, plural, printable, significant
from lonnymq.monitor.state import ChannelState
from lonnymq.web.channel_row import state_words
from lonnymq.web.summary import Summary

SHOWN = 3
"""Channels of one kind. The rest are counted."""
LONG_MS = 10 * SECOND
"""What waits for less is not worth a line."""


class Urgency(StrEnum):
    NOW = "now"
    """Something is not served that should be."""
    SOON = "soon"


@dataclass(frozen=True, slots=True)
class Attention:
    """`page` is the path of the page to look at, below the one of the dashboard."""

    urgency: Urgency
    text: str
    page: str


def attention(summary: Summary, workers: Iterable[ListedWorker]) -> list[Attention]:
    found = [*_whole_queue(summary), *_workers(workers), *_channels(summary), *_dead_letters(summary)]
    return sorted(found, key=lambda one: one.urgency is not Urgency.NOW)


def _whole_queue(summary: Summary) -> Iterator[Attention]:
    queue = summary.snapshot.queue
    if queue is None:
        return
    if queue.paused:
        yield Attention(Urgency.NOW, "The whole queue is paused: nothing is served.", "/")
    elif queue.due and not queue.workers and not summary.snapshot.total:
        text = f"No worker is alive, and {_are(queue.due, 'message')} due."
        yield Attention(Urgency.NOW, text, "/workers")
    if queue.blocked_by == "queue limit":
        text = f"The whole queue runs as many messages as it may: {count(queue.max_concurrency or 0)}."
        yield Attention(Urgency.SOON, text, "/health")
    yield from _unknown_tasks(queue)


def _dead_letters(summary: Summary) -> Iterator[Attention]:
    queue = summary.snapshot.queue
    if queue is not None and queue.dead:
        text = f"{plural(queue.dead, 'message')} failed for good and became dead letters."
        yield Attention(Urgency.SOON, text, "/dead")


def _unknown_tasks(queue: QueueStatistics) -> Iterator[Attention]:
    for task in queue.unknown_tasks[:SHOWN]:
        what = f"the task {printable(task)}" if task else "messages without a task"
        yield Attention(Urgency.NOW, f"No worker has a handler for {what}.", "/workers")
    if len(queue.unknown_tasks) > SHOWN:
        more = plural(len(queue.unknown_tasks) - SHOWN, "more task")
        yield Attention(Urgency.NOW, f"No worker has a handler for {more}.", "/workers")


def _workers(workers: Iterable[ListedWorker]) -> Iterator[Attention]:
    listed = list(workers)
    lost = [worker for worker in listed if not worker.is_alive]
    paused = [worker for worker in listed if worker.is_alive and worker.requested == "paused"]
    if lost:
        text = f"{_names(lost)} stopped reporting: dead, or cut off from the database."
        yield Attention(Urgency.NOW, text, "/workers")
    if paused:
        yield Attention(Urgency.SOON, f"{_names(paused)} {_is(len(paused))} paused.", "/workers")


def _names(workers: list[ListedWorker]) -> str:
    if len(workers) == 1:
        return f"Worker {printable(workers[0].name)}"
    return plural(len(workers), "worker")


def _channels(summary: Summary) -> Iterator[Attention]:
    noisy = [load for load in summary.loudest if load.channel in summary.noisy]
    for load in noisy[:SHOWN]:
        others = summary.waiting_count - load.is_waiting
        part = significant(100 * load.messages / summary.load, 2)
        text = (
            f"{printable(load.channel)} is noisy: {part} % of the load is its own, while {_others(others)}."
        )
        yield Attention(Urgency.SOON, text, _tenant(load.channel))
    if len(summary.noisy) > SHOWN:
        more = f"{_are(len(summary.noisy) - SHOWN, 'more tenant')} noisy."
        yield Attention(Urgency.SOON, more, "/tenants?sort=noisy")
    yield from _starved(summary)
    yield from _held_back(summary)
    for channel in summary.full[:SHOWN]:
        limit = plural(channel.stats.max_size or 0, "message")
        text = f"{printable(channel.name)} is full: it may hold {limit}, and more are refused."
        yield Attention(Urgency.NOW, text, _tenant(channel.name))
    if summary.noisy and (summary.oldest_quiet_ms or 0) >= LONG_MS:
        waited = duration(summary.oldest_quiet_ms or 0)
        yield Attention(
            Urgency.NOW,
            f"A quiet tenant has waited for {waited}, although others make the load.",
            "/tenants?sort=oldest",
        )


def _starved(summary: Summary) -> Iterator[Attention]:
    for channel in summary.starved[:SHOWN]:
        part = significant(100 * (summary.snapshot.of_fair(channel) or 0), 2)
        text = f"{printable(channel.name)} gets {part} % of its entitlement."
        yield Attention(Urgency.NOW, text, _tenant(channel.name))
    if summary.starved_count > SHOWN:
        more = plural(summary.starved_count - SHOWN, "more tenant")
        verb = "gets" if summary.starved_count - SHOWN == 1 else "get"
        text = f"{more} {verb} less than their entitlement."
        yield Attention(Urgency.NOW, text, "/tenants?sort=starved")


def _held_back(summary: Summary) -> Iterator[Attention]:
    queue = summary.snapshot.queue
    if queue is not None and queue.paused:  # so are all of them
        return
    shown = [channel for channel in summary.held_back[:SHOWN] if _waited(channel) >= LONG_MS]
    for channel in shown:
        waited = duration(_waited(channel))
        what = plural(channel.stats.due, "message")
        text = (
            f"{printable(channel.name)} is {state_words(channel.stats)}: {what} due, the oldest for {waited}."
        )
        yield Attention(Urgency.SOON, text, _tenant(channel.name))
    rest = summary.held_back_count - SHOWN
    if len(shown) == SHOWN and rest > 0:
        text = f"{_are(rest, 'more tenant')} held back by their own limits or a pause."
        yield Attention(Urgency.SOON, text, "/tenants?sort=blocked")


def _waited(channel: ChannelState) -> int:
    return channel.stats.oldest_due_ms or 0


def _others(number: int) -> str:
    return f"{plural(number, 'other')} {'waits' if number == 1 else 'wait'}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _are(number: int, noun: str) -> str:
    """
    >>> _are(1, "tenant"), _are(2, "tenant")
    ('1 tenant is', '2 tenants are')
    """
    return f"{plural(number, noun)} {_is(number)}"


def _tenant(name: str) -> str:
    return "/tenant?" + urlencode({"name": name})
