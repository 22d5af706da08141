"""The messages that a worker has leased, until the database has their outcomes.

A message is *ready* when it could start, *limited* while a limit of this worker does not let it start, and
*running* while its handler runs. Then it is finished, and counts as unfinished until the database has the
outcome. `session` describes the way of a message through these steps.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.commands import Delivery
from lonnymq.formatting import plural
from lonnymq.worker.drain import Drain
from lonnymq.worker.exceptions import JobStopped
from lonnymq.worker.execute import LOST, OUTCOME_OF_STOP, RELEASE, GiveBack, HandlerOutcome, run, storable
from lonnymq.worker.finish import Finisher
from lonnymq.worker.intake import Intake
from lonnymq.worker.job_context import WorkerJobContext
from lonnymq.worker.job_log import JobLog
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.leases import Leases
from lonnymq.worker.outages import Outages, is_transient
from lonnymq.worker.progress import Progress
from lonnymq.worker.run_limits import RunLimits
from lonnymq.worker.threads import Threads
from lonnymq.worker.unknown_tasks import UnknownTask, UnknownTasks
from lonnymq.worker.worker_settings import WorkerSettings

if TYPE_CHECKING:
    from lonnymq.prometheus.worker_metrics import WorkerMetrics

log = logging.getLogger("lonnymq.worker")

FINISH_TIMEOUT_S = 2.0  # for the last outcomes when the worker stops; the leases of the others run out
READY_MAX_S = 1.0  # how long a message may be ready before it is released
LIMITED_MAX_S = 0.5  # the same for a message that a limit of this worker does not let start


class MessagesInProgress:
    """`halted` is set while no message may start: the worker is paused or stops. `intake` is told what
    changes here. `threads_exhausted` is called when no thread is left to run handlers.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        queue: AsyncQueue,
        lease_s: float,
        halted: asyncio.Event,
        intake: Intake,
        outages: Outages,
        threads_exhausted: Callable[[], None],
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._settings = settings
        self._app = settings.app
        self._queue = queue
        self._lease_s = lease_s
        self._halted = halted
        self._intake = intake
        self._outages = outages
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # each handler gets a copy, not what another one has set
        self._ready: deque[LeasedMessage] = deque()
        self._limited: deque[LeasedMessage] = deque()
        self._running: dict[LeasedMessage, asyncio.Task[None]] = {}
        self._in_progress: set[LeasedMessage] = set()  # ready, limited or running
        self._unfinished = 0  # leased, and the database does not have the outcome yet
        self.drain = Drain(settings.name, self._running, settings.shutdown_timeout)
        self.limits = RunLimits(settings.channel_slots)
        self.unknown = UnknownTasks(self._app.tasks, settings.unknown_task_timeout)
        self._leases = Leases(queue, outages, self._in_progress, self._running, lease_s)
        self._progress = Progress(queue, self._loop)
        self._job_log = JobLog(queue.schema)
        self._metrics = metrics
        self._finisher = Finisher(queue, outages, self._job_log, self._on_finished, metrics)
        self._threads = Threads(settings.concurrency, threads_exhausted)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def ready(self) -> int:
        return len(self._ready)

    @property
    def limited(self) -> int:
        return len(self._limited)

    @property
    def is_idle(self) -> bool:
        """Whether the worker has no message, and the database has all outcomes."""
        return not self._in_progress and not self._unfinished

    @property
    def unwritten(self) -> int:
        """How many outcomes wait to be written to the database."""
        return self._finisher.backlog

    @property
    def outcomes(self) -> Counter[str]:
        """How many messages had which outcome."""
        return self._finisher.counts

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """What runs beside the messages, until cancelled."""
        return [self._finisher.run(), self._leases.run(), self._progress.run(), self._release_late()]

    def close(self) -> None:
        self._threads.close()

    def receive(self, deliveries: Iterable[Delivery]) -> None:
        """Start these messages, or let them wait for a free slot."""
        received_at = monotonic()
        self._job_log.read_levels()
        for message in deliveries:
            self._unfinished += 1
            handler = self._app.handler_of(message)
            if handler is None:
                unknown, rejected, is_new = self.unknown.meet(message)
                self._finish(LeasedMessage(message, unknown, self._lease_s, received_at), rejected)
                if is_new:
                    self._report_result(message, UnknownTask.of(message))
            else:
                leased = LeasedMessage(message, handler, self._lease_s, received_at)
                self._in_progress.add(leased)
                self._ready.append(leased)
                if message.stalled_consumer is not None:
                    self._job_log.taken_over(leased)
        self.unknown.log()
        self._leases.messages_arrived()
        self._start_handlers()

    def _start_handlers(self) -> None:
        if self._limited:
            waiting, self._limited = self._limited, deque()
            self._start(waiting)
            self._limited += waiting
        self._start(self._ready)

    def _start(self, waiting: deque[LeasedMessage]) -> None:
        """Start messages while there are free slots. Set those aside that a limit does not let start."""
        while waiting and len(self._running) < self._settings.concurrency and not self._halted.is_set():
            leased = waiting.popleft()
            if leased.is_interrupted:
                self._in_progress.discard(leased)
                self._finish(leased, OUTCOME_OF_STOP.get(leased.stop_reason, LOST))
            elif self.limits.start(leased):
                context = self._context.copy()
                self._running[leased] = self._loop.create_task(self._handle(leased), context=context)
            else:
                self._limited.append(leased)

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
        self.limits.finished(leased)
        if leased in self._in_progress:  # else `finish_all` has released it
            self._in_progress.discard(leased)
            self._finish(leased, outcome)
            self._report_result(leased.message, error)
        self._start_handlers()
        if not self._limited:
            self.limits.wake()

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

    def _on_finished(self, leased: LeasedMessage) -> None:
        self._unfinished -= 1
        self.limits.note_finished(leased)
        self._intake.wake()

    async def _release_late(self) -> None:
        """Run until cancelled. When handlers become slower, release what is ready, so that other workers can
        start it. Release what a limit of this worker does not let start.
        """
        while True:
            await asyncio.sleep(READY_MAX_S / 4)
            while self._limited and monotonic() - self._limited[0].received_at > LIMITED_MAX_S:
                leased = self._limited.popleft()
                self._release(leased, GiveBack(self.limits.release_delay_ms(leased)))
            if self._ready and (waited := monotonic() - self._ready[0].received_at) > READY_MAX_S:
                self._intake.handlers_slowed_down(waited)
                self._release_ready()

    def _release_ready(self) -> None:
        while self._ready:
            self._release(self._ready.popleft(), RELEASE)

    def release_all(self) -> None:
        """Release what has not started."""
        self._ready.extendleft(reversed(self._limited))
        self._limited.clear()
        self._release_ready()

    def _release(self, leased: LeasedMessage, outcome: GiveBack) -> None:
        self._in_progress.discard(leased)
        self._finish(leased, OUTCOME_OF_STOP.get(leased.stop_reason, outcome))

    async def finish_all(self) -> None:
        """Release what is ready, let what runs finish, and wait until the database has the outcomes."""
        self.release_all()
        await self.drain.wait()
        for leased in self._running:  # asynchronous handlers that ignore being cancelled
            self._in_progress.discard(leased)
            self._finish(leased, RELEASE)
            self._report_result(leased.message, JobStopped())
        try:
            async with asyncio.timeout(FINISH_TIMEOUT_S):
                await self._finisher.wait_until_idle()
        except TimeoutError:
            log.warning(
                "could not write the outcome of %s: served again when the lease ends",
                plural(self._unfinished, "message"),
            )
