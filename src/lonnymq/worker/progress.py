"""Writes the progress that handlers report: all reports of a worker together, at most once per second.

A report only replaces the one before in memory, so a handler may report thousands of times per second. The
first one is written at once, and the last one at most a second later.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.commands import ProgressWrite
from lonnymq.formatting import plural
from lonnymq.worker.execute import storable
from lonnymq.worker.leased import LeasedMessage, ids_and_tokens
from lonnymq.worker.outages import is_transient

log = logging.getLogger("lonnymq.worker")

PERIOD_S = 1.0
BATCH_SIZE = 1000
DIGITS = 6  # the database refuses a fraction that is too small for its 32 bits, and with it all of its batch


class Progress:
    def __init__(self, queue: AsyncQueue, loop: asyncio.AbstractEventLoop) -> None:
        self._queue = queue
        self._loop = loop
        self._reported: set[LeasedMessage] = set()
        self._has_reports = asyncio.Event()
        self._is_wakeup_scheduled = False

    def report(self, leased: LeasedMessage, fraction: float, note: str | None) -> None:
        """Called in any thread. The order matters: what is added to the set after it was emptied schedules
        another wake-up, so no report is forgotten.
        """
        leased.progress = fraction, note
        self._reported.add(leased)
        if not self._is_wakeup_scheduled:
            self._is_wakeup_scheduled = True
            with suppress(RuntimeError):  # the loop is closed: the handler has outlived its worker
                self._loop.call_soon_threadsafe(self._has_reports.set)

    def forget(self, leased: LeasedMessage) -> None:
        """Its attempt is over."""
        self._reported.discard(leased)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._has_reports.wait()
            self._has_reports.clear()
            self._is_wakeup_scheduled = False
            reported = [self._reported.pop() for _ in range(len(self._reported))]
            for start in range(0, len(reported), BATCH_SIZE):
                await self._write(reported[start : start + BATCH_SIZE])
            await asyncio.sleep(PERIOD_S)

    async def _write(self, reported: list[LeasedMessage]) -> None:
        reports = [leased.progress for leased in reported]
        fractions = [round(fraction, DIGITS) for fraction, _ in reports]
        notes = [None if note is None else storable(note) for _, note in reports]
        command = ProgressWrite(*ids_and_tokens(reported), fractions, notes, async_commit=True)
        try:
            await self._queue.perform(ask(command))
        except Exception as error:
            what = plural(len(reported), "message")
            if is_transient(error):
                log.info("could not write the progress of %s: %s", what, error)
            else:
                log.exception("could not write the progress of %s", what)
