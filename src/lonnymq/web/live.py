"""The numbers behind all open pages: one thread polls the queue while somebody looks."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from lonnymq.client.queue import Queue
from lonnymq.errors import LonnyMQError
from lonnymq.monitor.poll import WATCHING_SHARE, Focus, Poller
from lonnymq.monitor.ribbon import Ribbon, RibbonColumn
from lonnymq.monitor.state import QueueSnapshot
from lonnymq.web.summary import Summary, summarise

log = logging.getLogger("lonnymq.web")

INTERVAL_S = 2.0
BUSY_SHARE = 0.05
"""Once all channels have been read, polling takes at most this share of a core of the dashboard. With 100,000
channels, one poll takes about a third of a second, so there are fewer.
"""
IDLE_S = 30.0
"""Polling ends when nobody has looked for this long."""
POINTS_KEPT = 300
NOISY_POLLS = 5
"""For how many polls a channel that was noisy still counts as noisy; otherwise pages would flicker."""
FIRST_POLL_S = 10.0
LOOKED_AT_S = 10.0
LOOKED_AT_MAX = 100
"""The channels on open pages, which polls read more often than others."""


@dataclass(frozen=True, slots=True)
class Point:
    """One poll, for charts. `at` is the server's time in Unix milliseconds. `rate` is in messages per second,
    and `fair` is the fair rate of a channel of weight 1 that always has something due.
    """

    at: int
    rate: float
    fair: float | None
    due: int | None
    leased: int | None
    oldest_ms: int | None
    quiet_ms: int | None
    jain: float


@dataclass(frozen=True, slots=True)
class Poll:
    """The number of the last poll that worked, and why the one after it failed, if it did."""

    number: int
    fault: str | None = None


class Live:
    """Threads may share it. The poller has its own connection."""

    def __init__(self, queue: Queue, interval: float = INTERVAL_S) -> None:
        self._queue = queue
        self.interval = interval
        """Seconds between polls."""
        self._changed = threading.Condition()
        self._start_over()
        self._looked_at: dict[str, float] = {}
        self._used_at = 0.0
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def snapshot(self) -> QueueSnapshot:
        """The newest numbers. Starts polling if nobody has looked for a while, and waits for the first
        poll.
        """
        return self.summary().snapshot

    def summary(self) -> Summary:
        """The newest numbers, and what stands out in them."""
        deadline = time.monotonic() + FIRST_POLL_S
        with self._changed:
            self._keep_polling()
            while self._summary is None and self._error is None:
                if not self._changed.wait(deadline - time.monotonic()):
                    break
            if self._error is not None:
                raise self._error
            if self._summary is None:
                raise LonnyMQError(
                    "the database has not answered yet", "reload the page; `lonnymq doctor` says more"
                )
            return self._summary

    def look_at(self, channels: Iterable[str]) -> None:
        """Read these channels at the next polls, however many others there are."""
        now = time.monotonic()
        with self._changed:
            for name in channels:
                self._looked_at.pop(name, None)
                self._looked_at[name] = now
            while len(self._looked_at) > LOOKED_AT_MAX:
                del self._looked_at[next(iter(self._looked_at))]

    def points(self) -> list[Point]:
        with self._changed:
            return list(self._points)

    def ribbon(self) -> list[RibbonColumn]:
        """Who was served at each of the last polls, oldest first."""
        with self._changed:
            return self._ribbon.columns()

    async def polls(self) -> AsyncIterator[Poll]:
        """Each poll, as they are made, and each change of what is wrong, until the dashboard is closed or the
        server stops.
        """
        seen: object = None
        while not self._is_closed and not _server_is_stopping():
            with self._changed:
                self._keep_polling()
                number = self._summary.snapshot.poll if self._summary is not None else 0
                poll = Poll(number, None if self._error is None else self._error.message)
            if poll != seen and poll != Poll(0):
                seen = poll
                yield poll
            await asyncio.sleep(self.interval / 8)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _keep_polling(self) -> None:
        self._used_at = time.monotonic()
        if self._thread is None and not self._is_closed:
            self._start_over()
            self._thread = threading.Thread(target=self._run, name="lonnymq-web-live", daemon=True)
            self._thread.start()

    def _start_over(self) -> None:
        """Numbers from before a pause are old, and rates since then would be averages of the pause."""
        self._poller = Poller(self._queue, self.interval, dispatches=False, max_share=WATCHING_SHARE)
        self._points: deque[Point] = deque(maxlen=POINTS_KEPT)
        self._ribbon = Ribbon()
        self._noisy: deque[frozenset[str]] = deque(maxlen=NOISY_POLLS)
        self._summary: Summary | None = None
        self._error: LonnyMQError | None = None

    def _run(self) -> None:
        while True:
            begin, began_work = time.monotonic(), time.thread_time()
            self._poll()
            work = time.thread_time() - began_work
            with self._changed:
                self._changed.notify_all()
                is_first_pass = self._summary is None or not self._summary.snapshot.is_complete
                end = begin + (self.interval if is_first_pass else max(self.interval, work / BUSY_SHARE))
                self._changed.wait_for(lambda: self._is_closed, max(0.0, end - time.monotonic()))
                if self._is_closed or time.monotonic() - self._used_at > IDLE_S:
                    self._thread = None
                    return

    def _poll(self) -> None:
        try:
            snapshot = self._poller.poll(self._focus())
            summary = summarise(snapshot, frozenset().union(*self._noisy))
        except LonnyMQError as error:
            log.warning("could not read the queue: %s", error)
            with self._changed:
                self._error = error
            return
        except Exception as error:  # the thread must go on, and pages must say why they show nothing
            log.exception("could not read the queue")
            with self._changed:
                self._error = LonnyMQError(f"could not read the queue: {error}", "see the log")
            return
        with self._changed:
            self._error = None
            self._summary = summary
            self._noisy.append(snapshot.noisy)
            self._ribbon.add(summary.snapshot)
            self._points.append(_point(summary))

    def _focus(self) -> Focus:
        with self._changed:
            oldest = time.monotonic() - LOOKED_AT_S
            self._looked_at = {name: at for name, at in self._looked_at.items() if at >= oldest}
            return Focus(tuple(self._looked_at))


def _server_is_stopping() -> bool:
    """Uvicorn waits for its connections before it tells the application that it stops. A method of its server
    handles the signals.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", None) is True


def _point(summary: Summary) -> Point:
    snapshot = summary.snapshot
    stats = snapshot.queue
    return Point(
        snapshot.at,
        snapshot.total,
        snapshot.fair,
        None if stats is None else stats.due,
        None if stats is None else stats.leased,
        None if stats is None else stats.oldest_due_ms,
        summary.oldest_quiet_ms,
        snapshot.jain,
    )
