"""Polls the queue at a bounded cost, however many channels there are.

Each poll reads as many pages of channels, in the order of names, as it has time for; the next poll continues
from there. While there is no time for all of them, it also reads the channels that matter most: those served
next, those with the largest backlogs, and those on the screen.

With `max_share`, polls take about this share of the time, on average: a poll that took longer leaves less for
the next ones, and what there is no time for is read less often. The numbers of the queue are read first. Then
it is the turn of one kind of channels: the largest, the next, those on the screen, a page of all.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from lonnymq.client.queue import Queue
from lonnymq.commands import QueueStatistics
from lonnymq.errors import ChannelForbidden
from lonnymq.monitor.budget import Budget
from lonnymq.monitor.server import dispatch, server_time
from lonnymq.monitor.state import ChannelTable, QueueSnapshot

PAGE = 250
LARGEST = 100
SHOWN_PER_POLL = 10
MAX_SHARE = 0.1
MAX_SECONDS = 0.1
"""A poll reads no further page after this time, or after this share of the interval."""
CAP = 1_000
FIRST_SHARE = 0.05
"""With a lower `max_share`, polls take this share of the time until all channels have been read once."""
WATCHING_SHARE = 0.008
"""A `max_share` for a poller that runs all day: it takes less than 1 % of a core, also with 100,000 channels
and a million messages (tests/cli/test_poll_cost.py).
"""
LARGEST_IN_TURN = 50
QUEUE_PART = 0.6
"""With `max_share`, the numbers of the queue take at most this part of it, and are read less often if they
would take more.
"""


@dataclass(frozen=True)
class Focus:
    """What the user looks at: the channels on the screen, and the prefix they are filtered by."""

    shown: Sequence[str] = ()
    prefix: str = ""


class Poller:
    """Without `dispatches` it only reads, and the numbers are as of the last dispatch of a consumer.

    `max_share`: the share of the time that polls may take. Until all channels have been read once, they may
    take FIRST_SHARE. Without `max_share`, each poll reads at least one page, whatever it takes.
    """

    def __init__(
        self,
        queue: Queue,
        interval: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        dispatches: bool = True,
        max_share: float | None = None,
    ) -> None:
        self._queue = queue
        self._interval = interval
        self._clock = clock
        self._max_share = max_share
        self._table = ChannelTable()
        self._is_bound = False
        self._may_dispatch = dispatches
        self._budget = Budget()
        self._statistics: QueueStatistics | None = None
        self._statistics_at = 0.0
        self._next_statistics = 0
        self._turns = deque((self._read_largest, self._read_next, self._read_focus, self._read_a_page))

    def poll(self, focus: Focus | None = None) -> QueueSnapshot:
        begin = self._clock()
        self._table.begin_poll()
        self._may_dispatch = self._may_dispatch and dispatch(self._queue)
        if self._max_share is None:
            self._read(focus or Focus(), begin + self._seconds)
        else:
            self._read_in_turn(focus or Focus())
        return self._table.snapshot(self._statistics, self._statistics_at, server_time(self._queue))

    @property
    def _seconds(self) -> float:
        """How long a poll may take."""
        share = MAX_SHARE if self._max_share is None else self._max_share
        if not self._table.polls_per_pass:
            share = max(share, FIRST_SHARE)
        return min(MAX_SECONDS, self._interval * share)

    def _read(self, focus: Focus, end: float) -> None:
        self._read_statistics()
        is_over = self._read_page()
        if not is_over and self._table.polls_per_pass != 1:
            for order in ("waiting", "next"):
                self._read_order(order, LARGEST)
            self._read_prefix(focus.prefix)
            for name in self._table.stalest(focus.shown, SHOWN_PER_POLL):
                self._read_channel(name)
        while not is_over and self._clock() < end:
            is_over = self._read_page()

    def _read_in_turn(self, focus: Focus) -> None:
        budget = self._budget
        budget.begin(self._seconds)
        if self._table.poll >= self._next_statistics:  # even if a page took too long: they have their part
            cost = self._timed("statistics", self._read_statistics)
            polls = math.ceil(cost / (QUEUE_PART * self._seconds))
            self._next_statistics = self._table.poll + max(1, polls)
        is_over = False
        if self._table.polls_per_pass != 1 and budget.left > 0:
            is_over = self._turns[0](focus)
            self._turns.rotate(-1)
        while not is_over and budget.left > 0:
            is_over = self._read_a_page(focus)

    def _timed(self, kind: str, read: Callable[[], object]) -> float:
        """Returns what it cost."""
        begin = self._clock()
        read()
        return self._budget.spend(kind, self._clock() - begin)

    def _read_a_page(self, _focus: Focus) -> bool:
        begin = self._clock()
        is_last = self._read_page()
        kind = "last page" if is_last else "page"  # the last one is short, and says nothing about the others
        self._budget.spend(kind, self._clock() - begin)
        return is_last

    def _read_largest(self, _focus: Focus) -> bool:
        self._timed("largest", lambda: self._read_order("waiting", LARGEST_IN_TURN))
        return False

    def _read_next(self, _focus: Focus) -> bool:
        self._timed("next", lambda: self._read_order("next", LARGEST_IN_TURN))
        return False

    def _read_focus(self, focus: Focus) -> bool:
        if focus.prefix:
            self._timed("prefix", lambda: self._read_prefix(focus.prefix))
        for name in self._table.stalest(focus.shown, SHOWN_PER_POLL):
            if self._budget.left > 0:
                self._timed("shown", partial(self._read_channel, name))
        return False

    def _read_statistics(self) -> None:
        """There are none for a login that is bound to channels, which may not see the whole queue."""
        if not self._is_bound:
            try:
                self._statistics = self._queue.stats()
                self._statistics_at = self._clock()
            except ChannelForbidden:
                self._is_bound = True
                self._statistics = None

    def _read_page(self) -> bool:
        """Returns whether it was the last one."""
        page = self._queue.channels(after=self._table.cursor, limit=PAGE)
        is_last = len(page) < PAGE
        self._table.read_page(page, self._clock(), is_last=is_last)
        return is_last

    def _read_order(self, order: str, limit: int) -> None:
        self._table.read(self._queue.channels(order=order, limit=limit), self._clock())

    def _read_prefix(self, prefix: str) -> None:
        if prefix:
            self._table.read(self._queue.channels(prefix=prefix, limit=LARGEST), self._clock())

    def _read_channel(self, name: str) -> None:
        self._table.read([self._queue.channel(name).stats(cap=CAP)], self._clock())
