"""One run of a worker, from start to stop. Every message passes through here, and each step calls the module
that does the work. In order:

1. `_lease_messages` asks `intake` how many messages to lease, dequeues them (`_dequeue`), and pauses while
   `outages` says that the database is unavailable. With `until_empty` it returns when nothing is left, which
   `due_messages` decides.
2. `_receive` makes a `leased.LeasedMessage` of each message, and puts those that have a handler on the ready
   list. The others are rejected (`unknown_tasks`).
3. `_start_handlers` starts ready messages while fewer than `concurrency` are running, and holds those that
   `run_limits` does not let start. From 2. on, `leases` extends their leases in the background, and stops the
   handlers of those that are lost or cancelled.
4. `_handle` runs one message: `execute` calls the handler, in the loop or in one of the `threads`, with a
   `job_context` for its Job, and returns the outcome.
5. `_finish` passes message and outcome to `finish`, which completes, retries, releases or discards messages
   in `batches`; `_report_result` calls the user's `on_result`.
6. `_on_finished` is called when the outcome is in the database; `intake` may then ask for more.

Beside this run `progress`, which writes what handlers report, `maintenance`, the `registry`, the `scheduler`
(if the app has schedules) and `health` (if there is a health file). The registry may pause the worker, resume
it or have it drain (`_obey`). `_release_waiting` releases messages that were not started soon. At the end,
`_finish_all` releases what is ready, has `drain` wait for what runs and interrupt it when the shutdown
timeout is over, and waits until the outcomes are in the database.

With a metrics port, `lonnymq.prometheus` counts what starts here and what `finish` finishes.

Code that should run before each handler belongs in `_handle`, code that should run after each attempt in
`_report_result`, and code that should run when the worker starts or stops in `serve`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.observers import is_prefetching
from lonnymq.commands import Delivery
from lonnymq.errors import LonnyMQError
from lonnymq.worker import health, maintenance
from lonnymq.worker.drain import Drain
from lonnymq.worker.due_messages import has_due_messages
from lonnymq.worker.exceptions import HandlersStuck, JobStopped
from lonnymq.worker.execute import LOST, OUTCOME_OF_STOP, RELEASE, GiveBack, HandlerOutcome, run, storable
from lonnymq.worker.finish import Finisher
from lonnymq.worker.intake import Intake
from lonnymq.worker.job_context import WorkerJobContext
from lonnymq.worker.job_log import JobLog
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.leases import Leases
from lonnymq.worker.outages import RETRY_DELAYS, Outages, is_transient
from lonnymq.worker.progress import Progress
from lonnymq.worker.registry import Registry
from lonnymq.worker.run_limits import RunLimits
from lonnymq.worker.scheduler import run_schedules
from lonnymq.worker.threads import Threads
from lonnymq.worker.unknown_tasks import UnknownTask, UnknownTasks
from lonnymq.worker.worker_settings import WorkerSettings

if TYPE_CHECKING:
    from lonnymq.prometheus.worker_metrics import WorkerMetrics

log = logging.getLogger("lonnymq.worker")

DEQUEUE_MAX = 10_000
FINISH_BACKLOG_MAX = 2_000  # lease no more while this many wait to be finished: the database is slow
DEQUEUE_TIMEOUT_S = 2.0  # for a dequeue that is under way when the worker stops
FINISH_TIMEOUT_S = 2.0  # for the last outcomes when the worker stops; the leases of the others run out
LIMITED_WAIT_S = 1.0  # how long to wait for messages that a limit holds back, before checking again
READY_MAX_S = 1.0  # how long a message may be ready before it is released
HELD_MAX_S = 0.5  # the same for a message that a limit of this worker holds back


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
        self._context = contextvars.copy_context()  # each handler gets a copy, not what another one has set
        self._prefetch_context = self._context.copy()
        self._prefetch_context.run(is_prefetching.set, True)  # noqa: FBT003 - a value
        self._stopping = asyncio.Event()
        self._halted = asyncio.Event()  # lease and start no messages: paused or stopping
        self._ready: deque[LeasedMessage] = deque()
        self._held: deque[LeasedMessage] = deque()  # may not start, because of a limit of this worker
        self._running: dict[LeasedMessage, asyncio.Task[None]] = {}
        self._in_progress: set[LeasedMessage] = set()  # ready, held or running
        self._drain = Drain(self._running, settings.shutdown_timeout)
        self._unfinished = 0  # leased, and the database does not have the outcome yet
        self._outages = Outages()
        self._intake = Intake(settings.concurrency, settings.prefetch)
        self._limits = RunLimits(settings.channel_slots)
        self._leases = Leases(queue, self._outages, self._in_progress, self._running, lease_s)
        self._progress = Progress(queue, self._loop)
        self._job_log = JobLog(queue.schema)
        self._metrics = metrics
        self._finisher = Finisher(queue, self._outages, self._job_log, self._on_finished, metrics)
        self._threads = Threads(settings.concurrency, self._threads_exhausted)
        self._unknown = UnknownTasks(self._app.tasks, settings.unknown_task_timeout)
        self._registry = Registry(
            settings, queue, self._unknown, lambda: (self._status, len(self._running)), self._obey
        )
        self._failure: LonnyMQError | None = None
        if metrics is not None:
            metrics.watch(lambda: len(self._running), lambda: self._is_up, capacity=settings.concurrency)

    def stop(self, *, force: bool = False) -> None:
        self._stopping.set()
        self._halted.set()
        if force:
            self._drain.force()
        self._drain.begin()
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
        log.info(
            "%s serves %s of schema %r with concurrency %d and leases of %g s; tasks: %s",
            *(self._settings.name, self._settings.lanes_text, self._queue.schema),
            *(self._settings.concurrency, self._lease_s, self._task_names()),
        )
        background = [
            self._finisher.run(),
            self._leases.run(),
            self._progress.run(),
            maintenance.maintain(self._queue),
            self._registry.run(),
            self._release_waiting(),
        ]
        if self._app.crons:
            background.append(run_schedules(self._queue, self._app.crons, self._stopping, self._outages))
        if self._settings.health_file is not None:
            background.append(health.report(self._settings.health_file, self.state))
        try:
            async with asyncio.TaskGroup() as group:
                started = [group.create_task(each) for each in background]
                try:
                    await self._lease_messages(until_empty=until_empty)
                except asyncio.CancelledError:
                    self._drain.force()
                    raise
                finally:
                    await self._finish_all()
                    await self._registry.leave()
                    for task in started:
                        task.cancel()
        finally:
            self._threads.close()
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
            "running": len(self._running),
            "ready": len(self._ready) + len(self._held),
            "outcomes": dict(self._finisher.counts),
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
        counts = self._finisher.counts.items()
        return ", ".join(f"{count} {result}" for result, count in counts) or "no messages"

    def _task_names(self) -> str:
        return ", ".join(sorted(self._app.tasks)) or "none"

    async def _lease_messages(self, *, until_empty: bool) -> None:
        failures = 0
        wait_s = 0.0  # with until_empty: how long the next dequeue waits for messages
        while not self._stopping.is_set():
            if self._halted.is_set():
                self._release_all_waiting()
                await self._intake.wait()
                continue
            wanted = self._intake.wanted(len(self._running), len(self._ready))
            if wanted == 0 or self._finisher.backlog > FINISH_BACKLOG_MAX:
                await self._intake.wait()
                continue
            was_idle = not self._in_progress and not self._unfinished
            try:
                limit = min(self._limits.batch_size(wanted), DEQUEUE_MAX)
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
            held_before = len(self._held)
            self._receive(deliveries)
            await self._limits.note_leased(count=len(deliveries), held=len(self._held) - held_before)
            if until_empty and not deliveries and (self._in_progress or self._unfinished):
                await self._intake.wait()

    async def _is_more_due(self) -> bool:
        """With until_empty, when a dequeue found nothing: whether to wait for messages all the same."""
        return self._limits.is_awaiting_releases or await has_due_messages(self._queue, self._settings.lanes)

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
            await asyncio.wait({dequeue}, timeout=DEQUEUE_TIMEOUT_S)
            if dequeue.done() and dequeue.exception() is None:
                self._receive(dequeue.result())
            raise
        finally:
            halted.cancel()
            dequeue.cancel()
        return dequeue.result() if dequeue.done() else []

    def _receive(self, deliveries: Iterable[Delivery]) -> None:
        received_at = monotonic()
        for message in deliveries:
            self._unfinished += 1
            handler = self._app.handler_of(message)
            if handler is None:
                unknown, rejected, is_new = self._unknown.meet(message)
                self._finish(LeasedMessage(message, unknown, self._lease_s, received_at), rejected)
                if is_new:
                    self._report_result(message, UnknownTask.of(message))
            else:
                leased = LeasedMessage(message, handler, self._lease_s, received_at)
                self._in_progress.add(leased)
                self._ready.append(leased)
                if message.stalled_consumer is not None:
                    self._job_log.taken_over(leased)
        self._unknown.log()
        self._leases.messages_arrived()
        self._start_handlers()

    def _start_handlers(self) -> None:
        if self._held:
            waiting, self._held = self._held, deque()
            self._start(waiting)
            self._held += waiting
        self._start(self._ready)

    def _start(self, waiting: deque[LeasedMessage]) -> None:
        """Start messages while there are free slots. Hold those that may not start because of a limit."""
        while waiting and len(self._running) < self._settings.concurrency and not self._halted.is_set():
            leased = waiting.popleft()
            if leased.is_interrupted:
                self._in_progress.discard(leased)
                self._finish(leased, OUTCOME_OF_STOP.get(leased.stop_reason, LOST))
            elif self._limits.has_room(leased):
                self._limits.started(leased)
                context = self._context.copy()
                self._running[leased] = self._loop.create_task(self._handle(leased), context=context)
            else:
                self._held.append(leased)

    async def _handle(self, leased: LeasedMessage) -> None:
        leased.started_at = monotonic()
        if self._metrics is not None:
            self._metrics.started(leased.message, leased.started_at - leased.received_at)
        if self._job_log.is_about_starts:
            self._job_log.started(leased)
        error: BaseException | None
        try:
            if await self._extend_to_own_lease(leased):
                context = WorkerJobContext(
                    *(leased, self._leases, self._progress, self._loop),
                    *(self._queue.schema, self._queue.observers),
                )
                outcome, error = await run(leased, context, self._threads)
            else:
                outcome, error = OUTCOME_OF_STOP.get(leased.stop_reason, LOST), JobStopped()
        except Exception as failure:  # noqa: BLE001 - it is logged when the message is finished
            outcome, error = GiveBack(0, storable(repr(failure))), failure
        leased.duration_s, leased.error = monotonic() - leased.started_at, error
        self._intake.handler_finished(leased.duration_s)
        self._progress.forget(leased)
        del self._running[leased]
        self._limits.finished(leased)
        if leased in self._in_progress:  # else `_finish_all` has released it
            self._in_progress.discard(leased)
            self._finish(leased, outcome)
            self._report_result(leased.message, error)
        self._start_handlers()
        if not self._held:
            self._limits.wake()

    async def _extend_to_own_lease(self, leased: LeasedMessage) -> bool:
        """Give a message whose task asks for a longer lease that lease before its handler starts. Returns
        whether the worker still has the message.
        """
        lease_s = leased.handler.policy.lease_s
        if lease_s is None or lease_s <= self._lease_s:
            return True
        leased.lease_s = lease_s
        try:
            return await self._leases.extend(leased)
        except Exception as error:
            if not is_transient(error):
                raise
            self._outages.begin(error)
            return True  # the first lease still holds, and `leases` extends it when the database is back

    def _finish(self, leased: LeasedMessage, outcome: HandlerOutcome) -> None:
        self._finisher.finish(leased, outcome)
        self._intake.wake()

    def _report_result(self, message: Delivery, error: BaseException | None) -> None:
        if self._settings.on_result is not None:
            try:
                self._settings.on_result(message, error)
            except Exception:
                log.exception("on_result failed for message %s", message.id)

    def _on_finished(self, leased: LeasedMessage) -> None:  # noqa: ARG002
        self._unfinished -= 1
        self._intake.wake()

    async def _release_waiting(self) -> None:
        """Run until cancelled. When handlers become slower, release what is ready, so that other workers can
        start it. Release what is held because of a limit of this worker.
        """
        while True:
            await asyncio.sleep(READY_MAX_S / 4)
            while self._held and monotonic() - self._held[0].received_at > HELD_MAX_S:
                leased = self._held.popleft()
                self._release(leased, GiveBack(self._limits.release_delay_ms(leased)))
            if self._ready and (waited := monotonic() - self._ready[0].received_at) > READY_MAX_S:
                self._intake.handlers_slowed_down(waited)
                self._release_ready()

    def _release_ready(self) -> None:
        while self._ready:
            self._release(self._ready.popleft(), RELEASE)

    def _release_all_waiting(self) -> None:
        self._ready.extendleft(reversed(self._held))
        self._held.clear()
        self._release_ready()

    def _release(self, leased: LeasedMessage, outcome: GiveBack) -> None:
        self._in_progress.discard(leased)
        self._finish(leased, OUTCOME_OF_STOP.get(leased.stop_reason, outcome))

    async def _finish_all(self) -> None:
        self._release_all_waiting()
        await self._drain.wait()
        for leased in self._running:  # asynchronous handlers that ignore being cancelled
            self._in_progress.discard(leased)
            self._finish(leased, RELEASE)
            self._report_result(leased.message, JobStopped())
        try:
            async with asyncio.timeout(FINISH_TIMEOUT_S):
                await self._finisher.wait_until_idle()
        except TimeoutError:
            log.warning(
                "could not write the outcome of %d message%s: served again when the lease ends",
                *(self._unfinished, "" if self._unfinished == 1 else "s"),
            )

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
