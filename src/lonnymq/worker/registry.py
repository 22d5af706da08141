"""Reports the worker to the database every few seconds, and passes on what an administrator requests of it.

`lonnymq workers` lists what was reported. A worker that may not report, or cannot reach the database, works
all the same: nothing depends on the list.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.commands import WorkerLeave, WorkerReport
from lonnymq.version import __version__
from lonnymq.worker.outages import is_transient
from lonnymq.worker.unknown_tasks import NO_TASK, UnknownTasks
from lonnymq.worker.worker_settings import WorkerSettings

log = logging.getLogger("lonnymq.worker")

PERIOD_S = 5.0
REFUSED_PERIOD_S = 60.0  # while the database refuses the report
LEAVE_TIMEOUT_S = 1.0
NAME_MAX_BYTES = 255


class Registry:
    """`state` returns what the worker does (`serving`, `paused` or `draining`) and how many messages it runs.
    `obey` is called with what is requested of it, after every report.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        queue: AsyncQueue,
        unknown: UnknownTasks,
        state: Callable[[], tuple[str, int]],
        obey: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._unknown = unknown
        self._state = state
        self._obey = obey
        self._id = uuid.uuid4()
        self._started_at = time.monotonic()
        self._changed = asyncio.Event()
        self._reporting = asyncio.Lock()
        self._is_listed = False
        self._has_left = False
        self._is_refused = False

    def wake(self) -> None:
        """Report at once: the worker's state has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._changed.clear()
            pause = PERIOD_S
            try:
                await self._report()
            except Exception as error:  # noqa: BLE001 - the worker does not depend on it
                if not is_transient(error):
                    pause = REFUSED_PERIOD_S
                    self._log_refusal(error)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.8, 1.2)):  # noqa: S311 - spreads the writes
                    await self._changed.wait()

    async def leave(self) -> None:
        """Remove the worker from the list. No report follows."""
        self._has_left = True
        if self._is_listed:
            try:
                async with asyncio.timeout(LEAVE_TIMEOUT_S), self._reporting:
                    await self._queue.perform(ask(WorkerLeave(self._id)))
            except Exception as error:  # noqa: BLE001 - maintenance removes it later
                log.info("the worker stays in the list of workers for a while: %r", error)

    async def _report(self) -> None:
        async with self._reporting:
            if self._has_left:
                return
            answer = await self._queue.perform(ask(self._news()))
            self._is_listed = True
            self._is_refused = False
        self._unknown.log_unknown_to_all(answer.unknown_to_all)
        self._obey(answer.requested)

    def _news(self) -> WorkerReport:
        settings, app = self._settings, self._settings.app
        tasks = sorted(app.tasks) + ([NO_TASK] if app.raw_handler is not None else [])
        state, running = self._state()
        return WorkerReport(
            *(self._id, _cut(settings.name), _cut(socket.gethostname()), os.getpid(), __version__),
            *(round((time.monotonic() - self._started_at) * 1000), tasks, settings.concurrency),
            *(running, state, None if settings.lanes is None else list(settings.lanes)),
            *self._unknown.recent(),
        )

    def _log_refusal(self, error: Exception) -> None:
        if not self._is_refused:
            self._is_refused = True
            log.warning("`lonnymq workers` does not list this worker: %s", error)


def _cut(text: str) -> str:
    return text.encode(errors="replace")[:NAME_MAX_BYTES].decode(errors="ignore")
