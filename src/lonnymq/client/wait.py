"""A dequeue that waits for messages. It sleeps until the next due time, or until it is notified.

The order of the steps is the one in docs/sql.md, "Sleeping". It makes sure that no message is missed,
whenever its transaction commits. While the dequeue sleeps, it makes one call per second, which writes
nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from lonnymq.client.calls import Pair
from lonnymq.client.consume import DequeueRequest, take, take_new
from lonnymq.commands import Awaited, Delivery, Dequeued, Look, SleepBegin, SleepLook
from lonnymq.statement import Command

UNSURE_MS = 4  # the first pause, while producers may not notify yet; each next one is twice as long
POLL_MS = 1000


@dataclass(frozen=True)
class Sleep:
    """Sleep for this long, or until notified. The answer says whether it was notified. 0 discards the
    notifications that have arrived.
    """

    milliseconds: int


Steps = Generator[Command[Any] | Pair[Any] | Sleep, Any, list[Delivery]]


def take_or_wait(request: DequeueRequest, wait_ms: int | None, *, is_listening: bool) -> Steps:
    """Lease due messages, or wait up to `wait_ms` for some. None waits for ever."""
    taken: Dequeued = yield from take(request)
    if taken.deliveries or wait_ms == 0:
        return taken.deliveries
    look: Look = yield SleepLook(None, request.lanes)
    end = None if wait_ms is None else look.now_at + wait_ms
    generation, pause_ms = None, UNSURE_MS
    while end is None or look.now_at < end:
        if is_listening and not look.is_awaited:
            yield Sleep(0)
            awaited: Awaited = yield SleepBegin(generation)
            generation = awaited.generation if awaited.is_sure else None
            look = yield SleepLook(generation, request.lanes)
        until = look.again_at
        if look.is_due:
            taken = yield from take(request)
            if taken.deliveries:
                break
            until = taken.again_at or until
        if look.is_awaited:
            pause_ms = UNSURE_MS
        else:
            until, pause_ms = min(until, look.now_at + pause_ms), min(2 * pause_ms, POLL_MS)
        # At most until the next poll: the clock may have stepped between the readings of these times.
        sleep_ms = min(until, end or until, look.now_at + POLL_MS) - look.now_at
        is_notified: bool = yield Sleep(max(1, sleep_ms))
        if is_notified:
            taken = yield from take_new(request)
            if taken.deliveries:
                break  # they are leased: return them before anything can fail
        look = yield SleepLook(generation, request.lanes)
    return taken.deliveries
