"""Makes scheduled messages due, one after the other, in the order of their times.

Nobody waits, so the clock of the database does not reach these times. A message that is created while the
message for 12:00 runs, with a delay of a minute, belongs to 12:01 and not to a minute from now. So the
timeline notes how far it is ahead of the clock.
"""

from __future__ import annotations

from collections.abc import Collection

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.client.times import ServerClock
from lonnymq.commands import ListedMessage

PAGE = 1000


class Timeline:
    def __init__(self, queue: AsyncQueue, ends_at: int | None) -> None:
        self._queue = queue
        self._ends_at = ends_at
        self._ahead_ms = 0
        self._times: dict[int, tuple[int, int]] = {}
        """For each scheduled message, its `dequeue_at`, and the time on this timeline."""

    @classmethod
    async def begin(cls, queue: AsyncQueue, within_ms: int | None) -> Timeline:
        """Messages are run if they are due within this time from now; all if it is None."""
        if within_ms is None:
            return cls(queue, None)
        return cls(queue, await queue.perform(ask(ServerClock())) + within_ms)

    async def advance(self, skipped: Collection[int]) -> bool:
        """Make the next message due, except those with these ids. Returns whether there was one."""
        times = await self._scheduled(skipped)
        while times:
            message_id = min(times, key=lambda each: (times[each], each))
            at = times.pop(message_id)
            if self._ends_at is not None and at > self._ends_at:
                return False
            self._ahead_ms = max(self._ahead_ms, at - await self._queue.perform(ask(ServerClock())))
            if await self._queue.reschedule(message_id) == "rescheduled":
                return True
        return False

    async def has_become_due(self, skipped: Collection[int]) -> bool:
        """Whether a message became due by itself since the last run, such as a retry with a short backoff."""
        due = await self._queue.messages(status="due", limit=min(len(skipped) + 1, PAGE))
        return any(message.id not in skipped for message in due)

    async def count(self, skipped: Collection[int]) -> int:
        """How many messages are left."""
        times = (await self._scheduled(skipped)).values()
        return sum(self._ends_at is None or at <= self._ends_at for at in times)

    async def _scheduled(self, skipped: Collection[int]) -> dict[int, int]:
        """The times of the scheduled messages on this timeline, by id."""
        messages = await self._listed()
        known = self._times
        self._times = {}
        for message in messages:
            dequeue_at, at = known.get(message.id, (None, 0))
            if dequeue_at != message.dequeue_at:  # it is new, or was retried
                at = message.dequeue_at + self._ahead_ms
            self._times[message.id] = (message.dequeue_at, at)
        return {each: at for each, (_, at) in self._times.items() if each not in skipped}

    async def _listed(self) -> list[ListedMessage]:
        found: list[ListedMessage] = []
        after = None
        while True:
            page = await self._queue.messages(status="scheduled", after=after, limit=PAGE)
            found += page
            if len(page) < PAGE:
                return found
            after = page[-1].cursor
