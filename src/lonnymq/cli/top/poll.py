"""Looks at the queue, at a cost that has a bound, however many channels there are.

As many channels as a look has time for are read by name, and the next one goes on from there. While it has no
time for all of them, it also reads those that matter most: who is next, who has most waiting, who is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lonnymq.cli.name_prefix import just_before
from lonnymq.cli.open_queue import dispatch, server_time
from lonnymq.cli.top.state import Book, Picture
from lonnymq.client.queue import Queue
from lonnymq.commands import QueueStatistics
from lonnymq.errors import ChannelForbidden

PAGE = 250
FOREMOST = 100
SHOWN_AGAIN = 10
BUSY_SHARE = 0.1
BUSY_SECONDS = 0.1
"""A look asks for no further page after so long, nor after its share of the interval."""
CAP = 1_000


@dataclass(frozen=True)
class Focus:
    """What somebody looks at: the names shown, and the beginning of names that are asked for."""

    shown: Sequence[str] = ()
    prefix: str = ""


class Looker:
    def __init__(self, queue: Queue, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue = queue
        self._clock = clock
        self._seconds = min(BUSY_SECONDS, interval * BUSY_SHARE)
        self._book = Book()
        self._is_bound = False
        self._may_dispatch = True

    def look(self, focus: Focus | None = None) -> Picture:
        begin = self._clock()
        book = self._book
        book.begin_look()
        self._may_dispatch = self._may_dispatch and dispatch(self._queue)
        queue = self._statistics()
        queue_at = self._clock()
        is_over = self._read_page()
        if not is_over and book.sweep != 1:
            self._read_foremost(focus or Focus())
        while not is_over and self._clock() - begin < self._seconds:
            is_over = self._read_page()
        return book.picture(queue, queue_at, server_time(self._queue))

    def _statistics(self) -> QueueStatistics | None:
        """Logins that are bound to channels may not know of others."""
        if not self._is_bound:
            try:
                return self._queue.stats()
            except ChannelForbidden:
                self._is_bound = True
        return None

    def _read_page(self) -> bool:
        """Whether it was the last one."""
        page = self._queue.channels(after=self._book.cursor, limit=PAGE)
        is_last = len(page) < PAGE
        self._book.read_page(page, self._clock(), is_last=is_last)
        return is_last

    def _read_foremost(self, focus: Focus) -> None:
        for order in ("waiting", "next"):
            self._book.read(self._queue.channels(order=order, limit=FOREMOST), self._clock())
        if focus.prefix:
            found = self._queue.channels(after=just_before(focus.prefix), limit=FOREMOST)
            matching = [channel for channel in found if channel.channel.startswith(focus.prefix)]
            self._book.read(matching, self._clock())
        for name in self._book.stalest(focus.shown, SHOWN_AGAIN):
            self._book.read([self._queue.channel(name).stats(cap=CAP)], self._clock())
