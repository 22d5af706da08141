"""What a taskiq worker has leased. Leases are extended, and outcomes written, by the parts of our own worker.

taskiq acknowledges a message when its task has run, whether it succeeded or not. The acknowledgement
completes the message, or makes a dead letter of it if its task raised and nothing retries it. A message that
taskiq gives up without an acknowledgement is retried.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from taskiq import AckableMessage
from taskiq.exceptions import NoResultError, TaskRejectedError

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import Delivery
from lonnymq.taskiq.task_message import TaskHandler, TaskMessage
from lonnymq.worker import maintenance
from lonnymq.worker.backoff import Backoff, delay_ms
from lonnymq.worker.execute import (
    DONE,
    LOST,
    RELEASE,
    Discarded,
    GiveBack,
    HandlerOutcome,
    storable,
)
from lonnymq.worker.finish import Finisher
from lonnymq.worker.job_log import JobLog
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.leases import Leases
from lonnymq.worker.outages import RETRY_DELAYS, Outages, is_transient
from lonnymq.worker.progress import Progress
from lonnymq.worker.stop_reason import StopReason
from lonnymq.worker.unknown_tasks import UnknownTasks

log = logging.getLogger("lonnymq.taskiq")

STOP_TIMEOUT_S = 3.0  # for the last outcomes; taskiq gives the whole shutdown 5 seconds unless told otherwise
UNREADABLE = "taskiq could not read the message"


@dataclass(frozen=True)
class ConsumerSettings:
    """`read` returns the id of a message's task, and the message as taskiq reads it; None if the message is
    not one of taskiq.
    """

    name: str
    lanes: Sequence[str] | None
    lease_s: float | None
    batch: int
    dead_letters: bool
    unknown_task_timeout_s: float | None
    is_known: Callable[[str], bool]
    read: Callable[[Delivery], tuple[str, bytes] | None]
    is_readable: Callable[[bytes], bool]


class Consumer:
    """Belongs to one event loop. `start` it, `listen` to it, and `stop` it at the end."""

    def __init__(self, queue: AsyncQueue, settings: ConsumerSettings, tasks: dict[str, Any]) -> None:
        self._queue = queue
        self._settings = settings
        self._outages = Outages()
        self._messages: set[LeasedMessage] = set()
        self._running: dict[LeasedMessage, asyncio.Task[Any]] = {}
        self._not_started: defaultdict[str, deque[TaskMessage]] = defaultdict(deque)
        self._job_log = JobLog(queue.schema)
        self._finisher = Finisher(queue, self._outages, self._job_log, self._on_finished)
        self._progress = Progress(queue, asyncio.get_running_loop())
        self._unknown = UnknownTasks(tasks, settings.unknown_task_timeout_s)
        self._backoff = Backoff()
        self._lease_s = 0.0
        self._leases: Leases
        self._background: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._stops: set[asyncio.Event] = set()
        self._unwritten: set[TaskMessage] = set()
        self._is_stopped = False

    async def start(self) -> None:
        settings = await self._queue.settings()  # if it fails, taskiq starts another process
        self._lease_s = self._settings.lease_s or settings.lease_ms / 1000
        self._leases = Leases(self._queue, self._outages, self._messages, self._running, self._lease_s)
        for work in (
            self._leases.run(),
            self._finisher.run(),
            self._progress.run(),
            maintenance.maintain(self._queue),
        ):
            self._spawn(work)

    async def stop(self) -> None:
        """Release what taskiq has not acknowledged, so that another worker gets it at once."""
        for stop in self._stops:
            stop.set()
        for leased in [each for each in self._messages if isinstance(each, TaskMessage)]:
            leased.ask_to_stop(StopReason.SHUTDOWN)
            self._finish(leased, RELEASE)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._finisher.wait_until_idle()
        background = list(self._background)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """The messages, one at a time. Ends when the consumer stops; what was leased but not yet given out is
        released.
        """
        stop = asyncio.Event()
        self._stops.add(stop)
        ready: deque[TaskMessage] = deque()
        try:
            while not stop.is_set():
                ready.extend(await self._take(stop))
                while ready:
                    leased = ready.popleft()
                    yield AckableMessage(data=leased.data, ack=partial(self._acknowledge, leased))
            if self._failure is not None:
                raise self._failure
        finally:
            self._stops.discard(stop)
            for leased in ready:
                self._finish(leased, RELEASE)

    def started(self, task_id: str) -> TaskMessage | None:
        """taskiq starts the task of a message. Of several with the same id (a retry has that of the task that
        it repeats), it is the one that was given out first.
        """
        waiting = self._not_started.get(task_id)
        current = asyncio.current_task()
        if not waiting or current is None:
            return None
        leased = waiting.popleft()
        if not waiting:
            del self._not_started[task_id]
        leased.is_started = True
        leased.started_at = monotonic()
        leased.interrupt_handler = partial(self._interrupt, leased, current)
        self._running[leased] = current
        current.add_done_callback(partial(self._callback_done, leased))
        return leased

    async def _take(self, stop: asyncio.Event) -> list[TaskMessage]:
        """Lease messages. taskiq cancels this when the worker stops; what was just leased is released."""
        taking = asyncio.create_task(self._dequeue(stop))
        try:
            return self._received(await asyncio.shield(taking))
        except asyncio.CancelledError:
            stop.set()
            for leased in self._received(await taking):
                self._finish(leased, RELEASE)
            raise

    async def _dequeue(self, stop: asyncio.Event) -> list[Delivery]:
        settings, failures = self._settings, 0
        while not stop.is_set():
            try:
                found = await self._queue.dequeue_until(
                    stop, settings.batch, lease=self._lease_s, consumer=settings.name, lanes=settings.lanes
                )
            except Exception as error:
                if not is_transient(error):
                    raise
                failures += 1
                self._outages.begin(error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), RETRY_DELAYS(failures))
            else:
                self._outages.end()
                return found
        return []

    def _received(self, deliveries: Sequence[Delivery]) -> list[TaskMessage]:
        """Those that a task here is for. The others are rejected: a newer worker may know their task."""
        received_at, ready = monotonic(), []
        for message in deliveries:
            task = str((message.headers or {}).get(TASK_HEADER))
            found, error = self._read(message, task)
            task_id, data = found or ("", b"")
            leased = TaskMessage(
                *(message, TaskHandler(task), self._lease_s, received_at, task_id, data, self._progress)
            )
            if error is not None:
                self._finish(leased, GiveBack(None, error, is_final=True))
                continue
            if found is None:
                _, rejected, _ = self._unknown.meet(message)
                self._finish(leased, rejected)
                self._unknown.log()
                continue
            if message.stalled_consumer is not None:
                self._job_log.taken_over(leased)
            self._messages.add(leased)
            self._not_started[leased.task_id].append(leased)
            ready.append(leased)
        if ready:
            self._leases.messages_arrived()
        return ready

    def _read(self, message: Delivery, task: str) -> tuple[tuple[str, bytes] | None, str | None]:
        """The message as taskiq reads it, if its task is known here; or what is wrong with it."""
        if not self._settings.is_known(task):
            return None, None
        try:
            return self._settings.read(message), None
        except Exception as error:  # noqa: BLE001 - a single message must not end the worker
            return None, f"{UNREADABLE}: {_text(error)}"

    async def _acknowledge(self, leased: TaskMessage) -> None:
        self._finish(leased, self._outcome_of(leased))
        await leased.ended.wait()

    def _outcome_of(self, leased: TaskMessage) -> HandlerOutcome:
        if leased.is_interrupted:
            return DONE if leased.stop_reason is StopReason.CANCELLED else LOST
        if not leased.is_started:  # taskiq could not read it, or something else than its receiver listens
            is_readable = self._settings.is_readable(leased.data)
            return DONE if is_readable else GiveBack(None, UNREADABLE, is_final=True)
        error = None if leased.result is None else leased.result.error
        if error is None or isinstance(error, NoResultError):
            return DONE
        if isinstance(error, TaskRejectedError):
            return Discarded("the task rejected it")
        if not self._settings.dead_letters:
            return DONE
        leased.error = error
        return GiveBack(None, _text(error), is_final=True)

    def _finish(self, leased: TaskMessage, outcome: HandlerOutcome) -> None:
        """From here on, the lease is not extended, and nothing interrupts the task."""
        if leased.outcome is not None:
            return
        if self._is_stopped:
            leased.ended.set()
            return
        self._messages.discard(leased)
        leased.interrupt_handler = None
        if leased.started_at is not None:
            leased.duration_s = monotonic() - leased.started_at
        self._progress.forget(leased)
        self._forget_waiting(leased)
        self._unwritten.add(leased)
        self._finisher.finish(leased, outcome)

    def _forget_waiting(self, leased: TaskMessage) -> None:
        waiting = self._not_started.get(leased.task_id, deque())
        with suppress(ValueError):
            waiting.remove(leased)
        if not waiting:
            self._not_started.pop(leased.task_id, None)

    def _on_finished(self, leased: LeasedMessage) -> None:
        if isinstance(leased, TaskMessage):
            self._unwritten.discard(leased)
            leased.ended.set()

    def _callback_done(self, leased: TaskMessage, callback: asyncio.Task[Any]) -> None:
        """taskiq is done with a message. If it did not acknowledge it, a middleware failed, or the task has
        to do that itself and did not.
        """
        self._running.pop(leased, None)
        if leased.outcome is not None:
            return
        error = None if callback.cancelled() else callback.exception()
        if leased.is_interrupted:
            self._finish(leased, self._outcome_of(leased))
        elif callback.cancelled():
            self._finish(leased, RELEASE)
        elif error is not None:
            leased.error = error
            self._finish(leased, GiveBack(delay_ms(self._backoff, leased.message.attempts), _text(error)))
        else:  # it may still be acknowledged; otherwise it is served again when its lease ends
            self._messages.discard(leased)

    def _interrupt(self, leased: TaskMessage, callback: asyncio.Task[Any]) -> None:
        log.warning("interrupting %s of message %d: %s", *_names(leased), leased.stop_reason)
        callback.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[None]) -> None:
        """What is acknowledged from now on is served again when its lease ends. If the part has failed, the
        worker ends, and taskiq starts another process.
        """
        self._background.discard(task)
        failure = None if task.cancelled() else task.exception()
        if not task.cancelled() and failure is None:
            return  # maintenance, which is left to others
        self._is_stopped = True
        for leased in self._unwritten:
            leased.ended.set()
        if failure is not None:
            log.error("the worker cannot go on", exc_info=failure)
            self._failure = failure
            for stop in self._stops:
                stop.set()


def _names(leased: TaskMessage) -> tuple[str, int]:
    return leased.handler.name, leased.message.id


def _text(error: BaseException) -> str:
    return storable("".join(traceback.format_exception(error)).rstrip())
