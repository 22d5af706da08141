"""How many messages to lease, and when.

Enough that no handler waits for the database, and no more than are begun soon: what waits here could be run
elsewhere. How many that is follows from how long handlers take.
"""

from __future__ import annotations

import asyncio

AHEAD_MAX = 1000
SMOOTHING = 0.1
BRIEFEST = 1e-5


class Intake:
    """`prefetch` is for how many seconds' work may lie ready beyond what runs."""

    def __init__(self, concurrency: int, prefetch: float) -> None:
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._took: float | None = None
        self._ended = 0
        self._is_stalled = False
        self._is_changed = asyncio.Event()

    def ran(self, seconds: float) -> None:
        """A handler took so long."""
        self._took = seconds if self._took is None else self._took + SMOOTHING * (seconds - self._took)
        self._ended += 1
        self._is_stalled = False

    def is_slower(self, seconds: float) -> None:
        """What lay ready was not begun in time: count on this from now on, and on nothing until a handler
        ends.
        """
        self._took = max(self._took or 0, seconds)
        self._is_stalled = True

    @property
    def ahead(self) -> int:
        if self._took is None or self._is_stalled:
            return 0
        # The first handlers need not be like the others: as many as have ended, and then more.
        return min(
            AHEAD_MAX, self._ended, int(self._prefetch * self._concurrency / max(self._took, BRIEFEST))
        )

    def wanted(self, running: int, waiting: int) -> int:
        """How many to lease now. Not a few at a time when many are wanted: a dequeue costs the same."""
        ahead = self.ahead
        missing = self._concurrency + ahead - running - waiting
        is_needed = running + waiting < self._concurrency or waiting < ahead / 2
        return missing if is_needed else 0

    def changed(self) -> None:
        """There may be more to lease: a handler ended."""
        self._is_changed.set()

    async def wait(self) -> None:
        await self._is_changed.wait()
        self._is_changed.clear()
