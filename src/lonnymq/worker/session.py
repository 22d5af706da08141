"""One run of a worker, from start to stop. Every message passes through here, and each step calls the module
that does the work. In order:

1. `_lease_messages` asks `intake` how many messages to lease, dequeues them (`_dequeue`), and pauses while
   `outages` says that the database is unavailable. With `until_empty` it returns when nothing is left, which
   `due_messages` decides.

The next steps are in `in_progress`:

2. `receive` makes a `leased.LeasedMessage` of each message, and puts those that have a handler on the ready
   list. The others are rejected (`unknown_tasks`).
3. `_start_handlers` starts ready messages while fewer than `concurrency` are running, and sets those aside
   that `run_limits` does not let start. From 2. on, `leases` extends their leases in the background, and
   stops the handlers of those that are lost or cancelled.
4. `_handle` runs one message: `execute` calls the handler, in the loop or in one of the `threads`, with a
   `job_context` for its Job, and returns the outcome.
5. `_finish` passes message and outcome to `finish`, which completes, retries, releases or discards many
   messages with one call (`collector`); `_report_result` calls the user's `on_result`.
6. `_on_finished` is called when the outcome is in the database; `intake` may then ask for more.

Beside this run `progress`, which writes what handlers report, `maintenance`, the `registry`, the `scheduler`
(if the app has schedules) and `health` (if there is a health file). The registry may pause the worker, resume
it or have it drain (`_obey`). `_release_late` releases messages that were not started soon. At the end,
`finish_all` releases what is ready, has `drain` wait for what runs and interrupt it when the shutdown timeout
is over, and waits until the outcomes are in the database; then the worker leaves the registry.

With a metrics port, `lonnymq.prometheus` counts what `in_progress` starts and what `finish` finishes.

Code that should run before each handler belongs in `_handle`, code that should run after each attempt in
`_report_result`, and code that should run when the worker starts or stops in `serve`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.observers import is_prefetching
from lonnymq.commands import Delivery
from lonnymq.errors import LonnyMQError
from lonnymq.worker import health, maintenance
from lonnymq.worker.due_messages import has_due_messages
from lonnymq.worker.exceptions import HandlersStuck
from lonnymq.worker.in_progress import MessagesInProgress
from lonnymq.worker.intake import Intake
from lonnymq.worker.outages import RETRY_DELAYS, Outages, is_transient
from lonnymq.worker.registry import Registry
from lonnymq.worker.scheduler import Scheduler
from lonnymq.worker.worker_settings import WorkerSettings

if TYPE_CHECKING:
    from lonnymq.prometheus.worker_metrics import WorkerMetrics

log = logging.getLogger("lonnymq.worker")

DEQUEUE_MAX = 10_000
UNWRITTEN_MAX = 2_000  # lease no more while this many outcomes wait to be written: the database is slow
DEQUEUE_TIMEOUT_S = 2.0  # for a dequeue that is under way when the worker stops
LIMITED_WAIT_S = 1.0  # how long to wait for messages that a limit holds back, before checking again


class WorkerSession:
    def __init__(
        self,
        settings: WorkerSettings,
        queue: AsyncQueue,
        lease_s: float,
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._settings = settings
        self._app = settings.app
        self._queue = queue
        self._lease_s = lease_s
        self._loop = asyncio.get_running_loop()
        self._prefetch_context = contextvars.copy_context()
        self._prefetch_context.run(is_prefetching.set, True)  # noqa: FBT003 - a value
        self._stopping = asyncio.Event()
        self._halted = asyncio.Event()  # lease and start no messages: paused or stopping
        self._outages = Outages()
        self._intake = Intake(settings.concurrency, settings.prefetch)
        self._messages = MessagesInProgress(
            *(settings, queue, lease_s, self._halted, self._intake, self._outages, self._threads_exhausted),
            metrics,
        )
        self._registry = Registry(
            settings,
            queue,
            self._messages.unknown,
            lambda: (self._status, self._messages.running),
            self._obey,
        )
        self._failure: LonnyMQError | None = None
        if metrics is not None:
            metrics.watch(lambda: self._messages.running, lambda: self._is_up, capacity=settings.concurrency)

    def stop(self, *, force: bool = False) -> None:
        self._stopping.set()
        self._halted.set()
        if force:
            self._messages.drain.force()
        self._messages.drain.begin()
        self._intake.wake()
        self._registry.wake()

    def _obey(self, requested: str) -> None:
        """Do what an administrator requested: `paused`, `serving` or `draining`."""
        if self._stopping.is_set() or requested == self._status:
            return
        log.info("%s is now %s, as requested", self._settings.name, requested)
        if requested == "draining":
            self.stop()
        elif requested == "paused":
            self._halted.set()
        else:
            self._halted.clear()
        self._intake.wake()
        self._registry.wake()

    def _threads_exhausted(self) -> None:
        """Stop the worker: no thread is left to run handlers that are not asynchronous."""
        self._failure = HandlersStuck(
            "all threads are occupied by stuck handlers",
            "set timeouts on the sockets and locks they wait for",
        )
        self.stop(force=True)

    async def serve(self, *, until_empty: bool = False) -> None:
        scheduler = None
        if self._app.crons:
            scheduler = Scheduler(self._queue, self._app.crons, self._stopping, self._outages)
            await scheduler.open()  # if it may not, stop before any message is leased
        log.info(
            "%s serves %s of schema %r with concurrency %d and leases of %g s; tasks: %s",
            *(self._settings.name, self._settings.lanes_text, self._queue.schema),
            *(self._settings.concurrency, self._lease_s, self._task_names()),
        )
        background = [
            *self._messages.background(),
            maintenance.maintain(self._queue),
            self._registry.run(),
        ]
        if scheduler is not None:
            background.append(scheduler.run())
        if self._settings.health_file is not None:
            background.append(health.report(self._settings.health_file, self.state))
        try:
            async with asyncio.TaskGroup() as group:
                started = [group.create_task(each) for each in background]
                try:
                    await self._lease_messages(until_empty=until_empty)
                except asyncio.CancelledError:
                    self._messages.drain.force()
                    raise
                finally:
                    try:
                        await self._to_the_end(self._finish_all())
                    finally:
                        for task in started:
                            task.cancel()
        finally:
            self._messages.close()
            log.info("%s stopped: %s", self._settings.name, self._summary())
            if self._settings.health_file is not None:
                health.write_or_log(self._settings.health_file, self.state() | {"status": "stopped"})
        if self._failure is not None:
            raise self._failure

    def state(self) -> dict[str, Any]:
        """The content of the health file."""
        return {
            "status": "database unavailable" if self._outages.is_down else self._status,
            "name": self._settings.name,
            "running": self._messages.running,
            "ready": self._messages.ready + self._messages.limited,
            "outcomes": dict(self._messages.outcomes),
        }

    @property
    def _status(self) -> str:
        if self._stopping.is_set():
            return "draining"
        return "paused" if self._halted.is_set() else "serving"

    @property
    def _is_up(self) -> bool:
        return self._status == "serving" and not self._outages.is_down

    def _summary(self) -> str:
        counts = self._messages.outcomes.items()
        return ", ".join(f"{count} {result}" for result, count in counts) or "no messages"

    def _task_names(self) -> str:
        return ", ".join(sorted(self._app.tasks)) or "none"

    async def _lease_messages(self, *, until_empty: bool) -> None:
        messages, limits = self._messages, self._messages.limits
        failures = 0
        wait_s = 0.0  # with until_empty: how long the next dequeue waits for messages
        while not self._stopping.is_set():
            if self._halted.is_set():
                messages.release_all()
                await self._intake.wait()
                continue
            wanted = self._intake.wanted(messages.running, messages.ready)
            if wanted == 0 or messages.unwritten > UNWRITTEN_MAX:
                await self._intake.wait()
                continue
            was_idle = messages.is_idle
            try:
                limit = min(limits.batch_size(wanted), DEQUEUE_MAX)
                deliveries = await self._dequeue(limit, wait_s if until_empty else None)
                # The worker was idle before the dequeue, so it released or retried nothing during it.
                found_nothing = until_empty and was_idle and not deliveries
                if found_nothing and not await self._is_more_due():
                    return
                wait_s = LIMITED_WAIT_S if found_nothing else 0.0
            except Exception as error:
                if not is_transient(error):
                    raise
                failures += 1
                self._outages.begin(error)
                await self._pause(RETRY_DELAYS(failures))
                continue
            failures = 0
            self._outages.end()
            limited_before = messages.limited
            messages.receive(deliveries)
            await limits.note_leased(count=len(deliveries), limited=messages.limited - limited_before)
            if until_empty and not deliveries and not messages.is_idle:
                await self._intake.wait()

    async def _is_more_due(self) -> bool:
        """With until_empty, when a dequeue found nothing: whether to wait for messages all the same."""
        return self._messages.limits.is_awaiting_releases or await has_due_messages(
            self._queue, self._settings.lanes
        )

    async def _dequeue(self, limit: int, wait_s: float | None) -> list[Delivery]:
        """Wait for messages for `wait_s`, or without a limit if it is None.

        A dequeue that is under way when the worker pauses, stops or is cancelled is awaited, because its
        messages are leased. It is awaited for DEQUEUE_TIMEOUT_S at most, because in an outage there is no
        answer.
        """
        options: dict[str, Any] = {
            "lease": self._lease_s,
            "consumer": self._settings.name,
            "lanes": self._settings.lanes,
        }
        dequeue = self._loop.create_task(
            self._queue.dequeue_until(self._halted, limit, **options)
            if wait_s is None
            else self._queue.dequeue(limit, wait=wait_s, **options),
            context=self._prefetch_context,
        )
        halted = self._loop.create_task(self._halted.wait())
        try:
            await asyncio.wait({dequeue, halted}, return_when=asyncio.FIRST_COMPLETED)
            if not dequeue.done():
                await asyncio.wait({dequeue}, timeout=DEQUEUE_TIMEOUT_S)
        except asyncio.CancelledError:
            self.stop()
            with suppress(asyncio.CancelledError):
                await self._to_the_end(asyncio.wait({dequeue}, timeout=DEQUEUE_TIMEOUT_S))
            if dequeue.done() and dequeue.exception() is None:
                self._messages.receive(dequeue.result())
            raise
        finally:
            halted.cancel()
            dequeue.cancel()
        return dequeue.result() if dequeue.done() else []

    async def _finish_all(self) -> None:
        await self._messages.finish_all()
        await self._registry.leave()

    async def _to_the_end(self, work: Coroutine[Any, Any, object]) -> None:
        """Await a part of stopping. If this is cancelled meanwhile, handlers are stopped now, but the work is
        done all the same: otherwise messages would stay leased.
        """
        task = self._loop.create_task(work)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
                self._messages.drain.force()
        task.result()
        if cancelled is not None:
            raise cancelled

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
