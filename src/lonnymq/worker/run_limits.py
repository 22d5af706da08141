"""Limits how many messages of one task, or of one channel, run at the same time in this worker.

A message that may not start waits here for a moment, in case a handler of its task or channel finishes
soon, and is then released for other workers: for a short time at first, and for twice as long each time that
it comes back. A worker that leases nothing but such messages leases less often, so that it does not take and
release the same messages over and over.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from contextlib import suppress
from time import monotonic

from lonnymq.worker.backoff import Backoff
from lonnymq.worker.leased import LeasedMessage

RELEASE_DELAYS = Backoff(first=0.1, longest=1)
PAUSES = Backoff(first=0.02, longest=0.25)  # after leasing nothing that could start
REMEMBERED = 10_000  # for how many messages to count their releases
SEARCH_BATCH = 20  # how many messages to lease at least after a pause: some of them may start


class RunLimits:
    """`channel_slots` is how many messages of one channel may run, None for any number. The limit of a task
    is in its policy.
    """

    def __init__(self, channel_slots: int | None) -> None:
        self._channel_slots = channel_slots
        self._running_tasks: Counter[str] = Counter()
        self._running_channels: Counter[str] = Counter()
        self._releases: OrderedDict[int, int] = OrderedDict()
        self._fruitless = 0
        self._is_freed = asyncio.Event()
        self._all_back_at = 0.0

    def start(self, leased: LeasedMessage) -> bool:
        """Count a message as running, if it may start. Returns whether it may."""
        task_limit, slots = leased.handler.policy.max_running, self._channel_slots
        if task_limit is not None and self._running_tasks[leased.handler.name] >= task_limit:
            return False
        if slots is not None and self._running_channels[leased.message.channel] >= slots:
            return False
        if task_limit is not None:
            self._running_tasks[leased.handler.name] += 1
        if slots is not None:
            self._running_channels[leased.message.channel] += 1
        if self._releases:
            self._releases.pop(leased.message.id, None)
        return True

    def finished(self, leased: LeasedMessage) -> None:
        if leased.handler.policy.max_running is not None:
            self._running_tasks[leased.handler.name] -= 1
        if self._channel_slots is not None:
            self._running_channels[leased.message.channel] -= 1
            if not self._running_channels[leased.message.channel]:  # over time there may be many channels
                del self._running_channels[leased.message.channel]

    def wake(self) -> None:
        """End the pause of `note_leased`: there is room, and no message here could use it."""
        if self._fruitless:
            self._is_freed.set()

    def release_delay_ms(self, leased: LeasedMessage) -> int:
        """For how long to release a message that may not start."""
        times = self._releases.pop(leased.message.id, 0) + 1
        self._releases[leased.message.id] = times
        if len(self._releases) > REMEMBERED:
            self._releases.popitem(last=False)
        return round(_release_delay(times) * 1000)

    def note_finished(self, leased: LeasedMessage) -> None:
        """The database has the outcome of a message: its release, if it could not start."""
        if (times := self._releases.get(leased.message.id)) is not None:
            self._all_back_at = max(self._all_back_at, monotonic() + _release_delay(times))

    @property
    def is_awaiting_releases(self) -> bool:
        """Whether messages that were released here are not due again yet."""
        return monotonic() <= self._all_back_at

    def batch_size(self, wanted: int) -> int:
        """How many messages to lease."""
        return max(wanted, SEARCH_BATCH) if self._fruitless else wanted

    async def note_leased(self, *, count: int, limited: int) -> None:
        """Note how many messages a dequeue returned, and how many of them may not start. If that is all of
        them, pause.
        """
        if limited < count or count == 0:
            self._fruitless = 0
            return
        self._fruitless += 1
        self._is_freed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(PAUSES(self._fruitless)):
                await self._is_freed.wait()


def _release_delay(times: int) -> float:
    return RELEASE_DELAYS.without_jitter(times)  # messages that are released together stay in order
