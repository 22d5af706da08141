"""Decides how many messages to lease, and when.

Enough that no handler waits for the database, but no more than can be started soon: a message that waits here
could be run by another worker. How many that is depends on how long handlers take.
"""

from __future__ import annotations

import asyncio

PREFETCH_MAX = 1000
SMOOTHING = 0.1
DURATION_MIN_S = 1e-5


class Intake:
    """`prefetch` says how many seconds' worth of work may wait here beyond what runs."""

    def __init__(self, concurrency: int, prefetch: float) -> None:
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._mean_duration: float | None = None
        self._finished = 0
        self._is_stalled = False
        self._is_changed = asyncio.Event()

    def handler_finished(self, seconds: float) -> None:
        """Note how long a handler took."""
        if self._mean_duration is None:
            self._mean_duration = seconds
        else:
            self._mean_duration += SMOOTHING * (seconds - self._mean_duration)
        self._finished += 1
        self._is_stalled = False

    def handlers_slowed_down(self, seconds: float) -> None:
        """Note that a message waited this long and was not started. Prefetch nothing until a handler
        finishes, and expect handlers to take at least this long.
        """
        self._mean_duration = max(self._mean_duration or 0, seconds)
        self._is_stalled = True

    @property
    def prefetch_count(self) -> int:
        """How many messages may wait here beyond what runs."""
        if self._mean_duration is None or self._is_stalled:
            return 0
        by_duration = self._prefetch * self._concurrency / max(self._mean_duration, DURATION_MIN_S)
        # The first handlers may not be typical, so prefetch no more than have finished so far.
        return min(PREFETCH_MAX, self._finished, int(by_duration))

    def wanted(self, running: int, waiting: int) -> int:
        """How many messages to lease now. 0 while all slots are taken and half of the prefetch waits, because
        a small dequeue costs as much as a large one.
        """
        prefetch = self.prefetch_count
        missing = self._concurrency + prefetch - running - waiting
        is_needed = running + waiting < self._concurrency or waiting < prefetch / 2
        return missing if is_needed else 0

    def wake(self) -> None:
        """End `wait`: the number of messages here has changed, or the worker stops."""
        self._is_changed.set()

    async def wait(self) -> None:
        await self._is_changed.wait()
        self._is_changed.clear()
