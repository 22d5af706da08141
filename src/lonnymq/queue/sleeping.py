"""A dequeue that waits for messages: asleep until the next due time, or a notification where one can be had.

The order of the steps is that of the SQL contract ("Sleeping"): nothing that commits before, while or after
the consumer falls asleep is missed.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from lonnymq.commands import Awaited, Delivery, Dequeued, WakeAwait
from lonnymq.queue.consuming import Wish, take
from lonnymq.queue.times import ServerClock
from lonnymq.statement import Command

DOUBT_MS = 4  # between looks while a producer is under way that may not have seen that someone sleeps
POLL_MS = 1000


@dataclass(frozen=True)
class Nap:
    """Do nothing for so long, or until notified. For 0: discard the notifications that have come."""

    milliseconds: int


Steps = Generator[Command[Any] | Nap, Any, list[Delivery]]


def take_or_wait(wish: Wish, wait_ms: int, *, is_listening: bool) -> Steps:
    taken: Dequeued = yield from take(wish)
    if taken.deliveries or wait_ms <= 0:
        return taken.deliveries
    now: int = yield ServerClock()
    end = now + wait_ms
    generation, doubt_ms = None, DOUBT_MS
    while not taken.deliveries and now < end:
        is_sure = False
        if is_listening:
            yield Nap(0)
            awaited: Awaited = yield WakeAwait(generation)
            is_sure = awaited.is_sure
            taken = yield from take(wish)
            if taken.deliveries:
                break
        until = min(end, taken.again_at or end, now + POLL_MS)
        if is_sure:
            generation, doubt_ms = awaited.generation, DOUBT_MS
        elif is_listening:
            until, doubt_ms = min(until, now + doubt_ms), min(2 * doubt_ms, POLL_MS)
        yield Nap(max(1, until - now))
        taken = yield from take(wish)
        now = yield ServerClock()
    return taken.deliveries
