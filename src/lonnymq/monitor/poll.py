"""Polls the queue at a bounded cost, however many channels there are.

Each poll reads as many pages of channels, in the order of names, as it has time for; the next poll continues
from there. While there is no time for all of them, it also reads the channels that matter most: those served
next, those with the largest backlogs, and those on the screen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lonnymq.client.queue import Queue
from lonnymq.commands import QueueStatistics
from lonnymq.errors import ChannelForbidden
from lonnymq.monitor.server import dispatch, server_time
from lonnymq.monitor.state import ChannelTable, QueueSnapshot

PAGE = 250
LARGEST = 100
SHOWN_PER_POLL = 10
MAX_SHARE = 0.1
MAX_SECONDS = 0.1
"""A poll reads no further page after this time, or after this share of the interval."""
CAP = 1_000


@dataclass(frozen=True)
class Focus:
    """What the user looks at: the channels on the screen, and the prefix they are filtered by."""

    shown: Sequence[str] = ()
    prefix: str = ""


class Poller:
    """Without `dispatches` it only reads, and the numbers are as of the last dispatch of a consumer."""

    def __init__(
        self,
        queue: Queue,
        interval: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        dispatches: bool = True,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._seconds = min(MAX_SECONDS, interval * MAX_SHARE)
        self._table = ChannelTable()
        self._is_bound = False
        self._may_dispatch = dispatches

    def poll(self, focus: Focus | None = None) -> QueueSnapshot:
        begin = self._clock()
        table = self._table
        table.begin_poll()
        self._may_dispatch = self._may_dispatch and dispatch(self._queue)
        queue = self._statistics()
        queue_at = self._clock()
        is_over = self._read_page()
        if not is_over and table.polls_per_pass != 1:
            self._read_most_important(focus or Focus())
        while not is_over and self._clock() - begin < self._seconds:
            is_over = self._read_page()
        return table.snapshot(queue, queue_at, server_time(self._queue))

    def _statistics(self) -> QueueStatistics | None:
        """None for a login that is bound to channels, which may not see the whole queue."""
        if not self._is_bound:
            try:
                return self._queue.stats()
            except ChannelForbidden:
                self._is_bound = True
        return None

    def _read_page(self) -> bool:
        """Returns whether it was the last one."""
        page = self._queue.channels(after=self._table.cursor, limit=PAGE)
        is_last = len(page) < PAGE
        self._table.read_page(page, self._clock(), is_last=is_last)
        return is_last

    def _read_most_important(self, focus: Focus) -> None:
        for order in ("waiting", "next"):
            self._table.read(self._queue.channels(order=order, limit=LARGEST), self._clock())
        if focus.prefix:
            self._table.read(self._queue.channels(prefix=focus.prefix, limit=LARGEST), self._clock())
        for name in self._table.stalest(focus.shown, SHOWN_PER_POLL):
            self._table.read([self._queue.channel(name).stats(cap=CAP)], self._clock())
