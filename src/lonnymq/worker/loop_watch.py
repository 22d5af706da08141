"""Notices when the worker's event loop is blocked, and logs what blocks it. Runs in the lease thread."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Mapping
from time import monotonic
from types import FrameType

from lonnymq.worker.job_log import fields_of
from lonnymq.worker.leased import LeasedMessage

log = logging.getLogger("lonnymq.worker")

BLOCKED_S = 1.0  # a loop that does not answer for this long is blocked
REPORT_PERIOD_S = 30.0  # between two reports
FRAMES_MAX = 30
NOT_EXTENDED = (
    ", and leases are not extended, because the address of the queue's pool is not known: give it as listen="
)


class LoopWatch:
    """Asks the loop for an answer, one question at a time, and reports when none comes.

    `running` has the asyncio task of each handler, `queue` is the schema. `is_needed_for_leases` says that
    leases cannot be extended while the loop is blocked.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        running: Mapping[LeasedMessage, asyncio.Task[None]],
        queue: str,
    ) -> None:
        self._loop = loop
        self._queue = queue
        self._loop_thread = threading.get_ident()
        self._running = running
        self._asked_at: float | None = None  # None: it has answered
        self._is_reported = False
        self._silent_until = 0.0
        self.is_needed_for_leases = False

    def check(self, late_s: float) -> None:
        """Call it every second or more often; `late_s` says how late this call is."""
        now = monotonic()
        if late_s > BLOCKED_S:
            log.warning(
                "this process stood still for %.1f s: it was suspended, or a call kept the GIL; leases are "
                "not extended meanwhile",
                late_s,
            )
            if self._asked_at is not None:
                self._asked_at = now  # the loop could not answer either
        asked_at = self._asked_at
        if asked_at is None:
            self._ask(now)
        elif now - asked_at > BLOCKED_S and now > self._silent_until:
            self._silent_until = now + REPORT_PERIOD_S
            self._is_reported = True
            self._report(now - asked_at)

    def _ask(self, now: float) -> None:
        self._asked_at = now
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:  # the loop is closed
            self._asked_at = None

    def _answer(self) -> None:
        """Called in the loop."""
        if self._is_reported and self._asked_at is not None:
            self._is_reported = False
            log.warning(
                "the event loop runs again: it was blocked for at least %.1f s", monotonic() - self._asked_at
            )
        self._asked_at = None

    def _report(self, blocked_s: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented
        task = asyncio.current_task(self._loop)
        if self._asked_at is None or frame is None:
            return  # it has answered meanwhile
        leased = next((each for each, its in dict(self._running).items() if its is task), None)
        if leased is not None:
            blocker = f"{leased.handler.name} (message {leased.message.id})"
        else:
            blocker = "a callback" if task is None else f"the asyncio task {task.get_name()!r}"
        log.warning(
            "the event loop has been blocked for at least %.1f s by %s; asynchronous handlers wait%s. It is "
            "here:\n%s",
            *(blocked_s, blocker, NOT_EXTENDED if self.is_needed_for_leases else "", _stack(frame)),
            extra=None if leased is None else fields_of(leased, self._queue, "blocking"),
        )


def _stack(frame: FrameType) -> str:
    """The stack without the frames of asyncio and of the worker that lead to the handler."""
    frames = list(traceback.walk_stack(frame))[::-1]
    modules = [str(each.f_globals.get("__name__")) for each, _ in frames]
    start = max((n + 1 for n, name in enumerate(modules) if name == "asyncio.events"), default=0)
    while start < len(frames) - 1 and modules[start].rpartition(".")[0] == __package__:
        start += 1
    return "".join(traceback.StackSummary.extract(iter(frames[start:][-FRAMES_MAX:])).format()).rstrip()
