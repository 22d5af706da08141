"""One time that a worker serves, from its first message to its last."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.commands import Delivery
from lonnymq.errors import LonnyMQError
from lonnymq.worker import health, maintenance
from lonnymq.worker.due_messages import has_due_messages
from lonnymq.worker.exceptions import HandlersHang, JobStopped
from lonnymq.worker.execute import FOR_STOP, GIVEN_UP, HANDED_BACK, Ending, PutBack, run, written
from lonnymq.worker.finish import Finishing
from lonnymq.worker.intake import Intake
from lonnymq.worker.job_context import WorkerDesk
from lonnymq.worker.leased import Holding, Stop, now
from lonnymq.worker.leases import Leases
from lonnymq.worker.outages import PAUSES, Outages, is_passing
from lonnymq.worker.scheduler import tend
from lonnymq.worker.threads import GRACE, Threads
from lonnymq.worker.unknown_tasks import UNKNOWN, UnknownTask, described
from lonnymq.worker.worker_settings import Settings

log = logging.getLogger("lonnymq.worker")

DEQUEUE_MAX = 10_000
BACKLOG_MAX = 2_000  # so many are finished and the database not told: it is slow, so take no more for now
UNKNOWN_DELAY_MS = 60_000
ANSWER_MAX = 2.0  # seconds that a dequeue may take once the worker stops
LAST_WORDS = 5.0  # seconds that the database has to hear how things ended; else leases tell it
LIMITED_WAIT = 1.0  # seconds to wait for messages that a limit holds back, before looking again
READY_MAX = 1.0  # seconds that a message may lie ready before it is handed back


class Session:
    def __init__(self, settings: Settings, queue: AsyncQueue, lease: float) -> None:
        self._settings = settings
        self._app = settings.app
        self._queue = queue
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._forced = asyncio.Event()
        self._ready: deque[Holding] = deque()
        self._running: dict[Holding, asyncio.Task[None]] = {}
        self._held: set[Holding] = set()  # what is ready or running
        self._unfinished = 0  # what the database is yet to be told of
        self._outages = Outages()
        self._intake = Intake(settings.concurrency, settings.prefetch)
        self._leases = Leases(queue, self._outages, self._held, lease)
        self._finishing = Finishing(queue, self._outages, self._is_over)
        self._threads = Threads(settings.concurrency, self._give_up)
        self._failure: LonnyMQError | None = None

    def stop(self, *, force: bool = False) -> None:
        self._stopping.set()
        if force:
            self._forced.set()
        self._intake.changed()

    def _give_up(self) -> None:
        """Handlers that hang have used up all threads: what is leased now would never begin."""
        self._failure = HandlersHang(
            "so many handlers hang that no thread is left", "give what they wait for timeouts of its own"
        )
        self.stop(force=True)

    async def serve(self, *, until_empty: bool = False) -> None:
        log.info(
            "%s serves schema %r, %d at a time, under leases of %g s: %s",
            *(self._settings.name, self._queue.schema, self._settings.concurrency, self._lease),
            ", ".join(sorted(self._app.tasks)) or "no task",
        )
        services = [
            self._finishing.run(),
            self._leases.run(),
            maintenance.maintain(self._queue),
            self._hand_back_what_waits(),
            *([tend(self._queue, self._app.crons, self._stopping, self._outages)] if self._app.crons else []),
            *([health.report(self._settings.health_file, self.state)] if self._settings.health_file else []),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                started = [group.create_task(service) for service in services]
                try:
                    await self._take_in(until_empty=until_empty)
                except asyncio.CancelledError:
                    self._forced.set()
                    raise
                finally:
                    await self._drain()
                    for service in started:
                        service.cancel()
        finally:
            self._threads.close()
            log.info("%s ends: %s", self._settings.name, self._said())
            if self._settings.health_file is not None:
                health.write_if_possible(self._settings.health_file, self.state() | {"status": "ended"})
        if self._failure is not None:
            raise self._failure

    def state(self) -> dict[str, Any]:
        """How things are, for people and for whoever looks after the process."""
        status = "draining" if self._stopping.is_set() else "serving"
        return {
            "status": "database away" if self._outages.is_on else status,
            "name": self._settings.name,
            "running": len(self._running),
            "ready": len(self._ready),
            "outcomes": dict(self._finishing.counts),
        }

    def _said(self) -> str:
        return (
            ", ".join(f"{count} {what}" for what, count in self._finishing.counts.items())
            or "nothing was done"
        )

    async def _take_in(self, *, until_empty: bool) -> None:
        failures = 0
        wait = 0.0  # with until_empty: seconds for which the next dequeue waits
        while not self._stopping.is_set():
            wanted = self._intake.wanted(len(self._running), len(self._ready))
            if wanted == 0 or self._finishing.backlog > BACKLOG_MAX:
                await self._intake.wait()
                continue
            is_idle = not self._held and not self._unfinished
            try:
                deliveries = await self._dequeue(min(wanted, DEQUEUE_MAX), wait if until_empty else None)
                # Idle before it asked, so that nothing was put back meanwhile.
                is_last = until_empty and is_idle and not deliveries
                if is_last and not await has_due_messages(self._queue):
                    return
                wait = LIMITED_WAIT if is_last else 0.0
            except Exception as error:
                if not is_passing(error):
                    raise
                failures += 1
                self._outages.begin(error)
                await self._pause(PAUSES(failures))
                continue
            failures = 0
            self._outages.end()
            self._receive(deliveries)
            if until_empty and not deliveries and (self._held or self._unfinished):
                await self._intake.wait()

    async def _dequeue(self, limit: int, wait: float | None) -> list[Delivery]:
        """`wait`: seconds to wait for messages; None until there are some.

        Whatever happens meanwhile, what the database has leased is told of: a call that is under way is
        waited for. But not for ever: in an outage it has no answer.
        """
        options: dict[str, Any] = {"lease": self._lease, "consumer": self._settings.name}
        taking = self._loop.create_task(
            self._queue.dequeue_until(self._stopping, limit, **options)
            if wait is None
            else self._queue.dequeue(limit, wait=wait, **options)
        )
        stopping = self._loop.create_task(self._stopping.wait())
        try:
            await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                await asyncio.wait({taking}, timeout=ANSWER_MAX)
        except asyncio.CancelledError:
            self._stopping.set()
            await asyncio.wait({taking}, timeout=ANSWER_MAX)
            if taking.done() and taking.exception() is None:
                self._receive(taking.result())
            raise
        finally:
            stopping.cancel()
            taking.cancel()
        return taking.result() if taking.done() else []

    def _receive(self, deliveries: Iterable[Delivery]) -> None:
        received = now()
        strange: defaultdict[str, int] = defaultdict(int)
        for message in deliveries:
            self._unfinished += 1
            handler = self._app.handler_of(message)
            holding = Holding(message, handler or UNKNOWN, self._lease, received)
            if handler is None:
                strange[described(message)] += 1
                self._end(holding, PutBack(UNKNOWN_DELAY_MS))
                self._tell(message, UnknownTask.of(message))
            else:
                self._held.add(holding)
                self._ready.append(holding)
        for what, count in strange.items():
            log.error(
                "%d %s are put back for %d s: nothing here handles them; this worker knows %s",
                *(count, what, UNKNOWN_DELAY_MS / 1000, ", ".join(sorted(self._app.tasks)) or "no task"),
            )
        self._start_some()

    def _start_some(self) -> None:
        while self._ready and len(self._running) < self._settings.concurrency and not self._stopping.is_set():
            holding = self._ready.popleft()
            if holding.stopped is None:
                self._running[holding] = self._loop.create_task(self._handle(holding))
            else:
                self._held.discard(holding)
                self._end(holding, FOR_STOP.get(holding.stopped, GIVEN_UP))

    async def _handle(self, holding: Holding) -> None:
        holding.started = now()
        try:
            if await self._has_own_lease(holding):
                desk = WorkerDesk(holding, self._leases, self._loop, self._queue.schema)
                ending, error = await run(holding, desk, self._threads)
            else:
                ending, error = FOR_STOP.get(holding.stopped, GIVEN_UP), JobStopped()
        except Exception as failure:
            log.exception("%r", holding)
            ending, error = PutBack(0, written(repr(failure))), failure
        self._intake.ran(now() - holding.started)
        del self._running[holding]
        if holding in self._held:  # else it was handed back already
            self._held.discard(holding)
            self._end(holding, ending)
            self._tell(holding.message, error)
        self._start_some()

    async def _has_own_lease(self, holding: Holding) -> bool:
        """A task that asks for a longer lease than the others gets it before it begins."""
        lease = holding.handler.policy.lease_s
        if lease is None or lease <= self._lease:
            return True
        holding.lease = lease
        try:
            return await self._leases.extend(holding)
        except Exception as error:
            if not is_passing(error):
                raise
            self._outages.begin(error)
            return True  # it is ours for now, and is extended when the database is back

    def _end(self, holding: Holding, ending: Ending) -> None:
        self._finishing.finish(holding, ending)
        self._intake.changed()

    def _tell(self, message: Delivery, error: BaseException | None) -> None:
        """Of what was begun, how it ended."""
        if self._settings.on_result is not None:
            try:
                self._settings.on_result(message, error)
            except Exception:
                log.exception("on_result failed for message %s", message.id)

    def _is_over(self, holding: Holding) -> None:  # noqa: ARG002
        self._unfinished -= 1
        self._intake.changed()

    async def _hand_back_what_waits(self) -> None:
        """For ever. Handlers have become slower than they were: others may have what they keep waiting."""
        while True:
            await asyncio.sleep(READY_MAX / 4)
            if self._ready and (waited := now() - self._ready[0].received) > READY_MAX:
                self._intake.is_slower(waited)
                self._hand_back()

    def _hand_back(self) -> None:
        while self._ready:
            holding = self._ready.popleft()
            self._held.discard(holding)
            self._end(holding, FOR_STOP.get(holding.stopped, HANDED_BACK))

    async def _drain(self) -> None:
        """What runs may end, for a while; then it is interrupted. The database is told of all of it, if
        it listens.
        """
        self._hand_back()
        await self._until_idle(self._settings.shutdown_timeout, self._forced)
        if self._running:
            log.warning("%d handlers did not end in time: their messages are handed back", len(self._running))
            for holding in self._running:
                holding.stop(Stop.SHUTDOWN)
            await self._until_idle(2 * GRACE)
        for holding in self._running:  # asynchronous, and deaf to being cancelled
            self._held.discard(holding)
            self._end(holding, HANDED_BACK)
            self._tell(holding.message, JobStopped())
        try:
            async with asyncio.timeout(LAST_WORDS):
                await self._finishing.finished()
        except TimeoutError:
            log.warning("the database could not be told of %d messages: their leases will", self._unfinished)

    async def _until_idle(self, seconds: float, forced: asyncio.Event | None = None) -> None:
        """Until nothing runs, or for so long, or until it is forced."""
        if not self._running:
            return
        waiters: list[asyncio.Task[Any]] = [self._loop.create_task(asyncio.wait(self._running.values()))]
        if forced is not None:
            waiters.append(self._loop.create_task(forced.wait()))
        await asyncio.wait(waiters, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiters:
            waiter.cancel()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
