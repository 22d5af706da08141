"""A dequeue that waits for messages: asleep until the next due time, or a notification where one can be had.

The order of the steps is that of the SQL contract ("Sleeping"): nothing that commits before, while or after
the consumer falls asleep is missed. While it sleeps it makes one call a second, which writes nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from lonnymq.client.calls import Pair
from lonnymq.client.consume import DequeueRequest, take, take_new
from lonnymq.commands import Awaited, Delivery, Dequeued, Look, SleepBegin, SleepLook
from lonnymq.statement import Command

DOUBT_MS = 4  # the first pause between looks while it is not sure that a producer would notify
POLL_MS = 1000


@dataclass(frozen=True)
class Nap:
    """Do nothing for so long, or until notified, and answer whether it was. For 0: discard what has come."""

    milliseconds: int


Steps = Generator[Command[Any] | Pair[Any] | Nap, Any, list[Delivery]]


def take_or_wait(wish: DequeueRequest, wait_ms: int | None, *, is_listening: bool) -> Steps:
    """`wait_ms` None: until there are some."""
    taken: Dequeued = yield from take(wish)
    if taken.deliveries or wait_ms == 0:
        return taken.deliveries
    look: Look = yield SleepLook(None, wish.lanes)
    end = None if wait_ms is None else look.now_at + wait_ms
    generation, doubt_ms = None, DOUBT_MS
    while end is None or look.now_at < end:
        if is_listening and not look.is_awaited:
            yield Nap(0)
            awaited: Awaited = yield SleepBegin(generation)
            generation = awaited.generation if awaited.is_sure else None
            look = yield SleepLook(generation, wish.lanes)
        until = look.again_at
        if look.is_due:
            taken = yield from take(wish)
            if taken.deliveries:
                break
            until = taken.again_at or until
        if look.is_awaited:
            doubt_ms = DOUBT_MS
        else:
            until, doubt_ms = min(until, look.now_at + doubt_ms), min(2 * doubt_ms, POLL_MS)
        # Never for longer than a poll: the clock may have stepped between the readings of these times.
        nap_ms = min(until, end or until, look.now_at + POLL_MS) - look.now_at
        is_notified: bool = yield Nap(max(1, nap_ms))
        if is_notified:
            taken = yield from take_new(wish)
            if taken.deliveries:
                break  # before anything can fail: they are leased
        look = yield SleepLook(generation, wish.lanes)
    return taken.deliveries
