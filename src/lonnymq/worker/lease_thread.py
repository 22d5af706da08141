"""The thread that extends leases. `leases` has the rules between it and the worker's event loop.

It has an event loop and connections of its own, so it needs nothing from the worker's loop to extend a lease.
It also watches that loop (`loop_watch`). While the worker has no messages it sleeps.

A pool whose address is not known, such as asyncpg's, cannot be opened a second time. Leases are then extended
on that pool, in the worker's loop, and not while that is blocked.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from time import monotonic
from typing import Any, Protocol

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.commands import MessageExtendMany, Result
from lonnymq.errors import UnsuitableConnection
from lonnymq.formatting import plural
from lonnymq.worker.collector import process_in_parts
from lonnymq.worker.leased import LeasedMessage, ids_and_tokens
from lonnymq.worker.loop_watch import LoopWatch
from lonnymq.worker.outages import is_transient
from lonnymq.worker.stop_reason import StopReason

log = logging.getLogger("lonnymq.worker")

INTERRUPTING = {
    Result.CANCELLED: StopReason.CANCELLED,
    Result.LOST: StopReason.LEASE_LOST,
    Result.NOT_FOUND: StopReason.LEASE_LOST,
}
PERIOD_MAX_S = 1.0
POOL_SIZE = 4  # usually one is open; more while another transaction has locked some of the leases
CONNECT_TIMEOUT_S = 5


class InLoop(Protocol):
    """What the lease thread calls in the worker's loop."""

    def interrupt(self, leased: LeasedMessage, reason: StopReason) -> None: ...
    def call_failed(self, error: BaseException) -> None: ...
    def call_answered(self) -> None: ...


class LeaseThread:
    def __init__(
        self,
        queue: AsyncQueue,
        in_loop: InLoop,
        messages: set[LeasedMessage],
        running: Mapping[LeasedMessage, asyncio.Task[None]],
        shortest_s: float,
    ) -> None:
        self._worker_queue = queue
        self._in_loop = in_loop
        self._messages = messages
        self._period_s = min(PERIOD_MAX_S, shortest_s / 10)
        self._worker_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop  # from `start` on
        self._watch = LoopWatch(self._worker_loop, running, queue.schema)
        self._wakeup = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_asleep = False
        self._is_unavailable = False
        self._extending: set[asyncio.Task[None]] = set()
        self._queue: AsyncQueue | None = None  # None: the address is not known
        self._connecting: asyncio.Task[None] | None = None

    # Called in the worker's loop:

    def start(self) -> asyncio.Future[None]:
        """Start the thread. The answer is its end, with the exception if it failed."""
        ended: asyncio.Future[None] = self._worker_loop.create_future()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._main, args=(ended,), name="lonnymq leases", daemon=True).start()
        return ended

    def wake(self) -> None:
        if self._is_asleep:
            self._is_asleep = False
            _call(self._loop, self._wakeup.set)

    def stop(self) -> None:
        _call(self._loop, self._stopping.set)
        _call(self._loop, self._wakeup.set)

    # Called in the lease thread:

    def _main(self, ended: asyncio.Future[None]) -> None:
        failure: BaseException | None = None
        try:
            self._loop.run_until_complete(self._run())
        except BaseException as error:  # noqa: BLE001 - the worker gets it
            failure = error
        finally:
            self._loop.close()
        _call(self._worker_loop, _set_ended, ended, failure)

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            with suppress(UnsuitableConnection):
                queue = AsyncQueue.beside(self._worker_queue, POOL_SIZE, CONNECT_TIMEOUT_S)
                self._queue = await stack.enter_async_context(queue)
            self._watch.is_needed_for_leases = self._queue is None
            try:
                await self._extend_until_stopped()
            finally:
                for task in self._extending:
                    task.cancel()
                await asyncio.gather(*self._extending, return_exceptions=True)

    async def _extend_until_stopped(self) -> None:
        """Each lease is extended when a third of it is over."""
        while not self._stopping.is_set():
            self._is_asleep = True
            if not self._messages:
                await self._wakeup.wait()
            self._is_asleep = False
            self._wakeup.clear()
            slept_at = monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period_s):
                    await self._stopping.wait()
            self._watch.check(late_s=monotonic() - slept_at - self._period_s)
            self._extend_due(self._messages.copy())

    def _extend_due(self, messages: Iterable[LeasedMessage]) -> None:
        now = monotonic()
        due: defaultdict[float, list[LeasedMessage]] = defaultdict(list)
        for leased in messages:
            if leased.is_completed_by_handler or leased.is_interrupt_requested or leased.is_interrupted:
                continue
            if leased.lease_ends_at <= now:
                self._request_interrupt(leased, StopReason.LEASE_LOST)
            elif not leased.is_being_extended and leased.lease_ends_at - now < leased.lease_s * 2 / 3:
                due[leased.lease_s].append(leased)
            elif self._connecting is None and now - leased.received_at > self._period_s:
                self._connecting = self._spawn(self._connect())
        for lease_s, together in due.items():
            for leased in together:
                leased.is_being_extended = True
            self._spawn(self._extend_together(together, lease_s))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._extending.add(task)
        task.add_done_callback(self._extending.discard)
        return task

    async def _connect(self) -> None:
        """Connect before the first lease is due, so that this does not take time from it."""
        if self._queue is not None:
            with suppress(Exception):  # the call that extends reports it
                await self._queue.settings()

    async def _extend_together(self, messages: list[LeasedMessage], lease_s: float) -> None:
        try:
            await process_in_parts(self._extend_many, messages, lease_s / 6)
        except Exception as error:
            if is_transient(error):
                self._is_unavailable = True
                _call(self._worker_loop, self._in_loop.call_failed, error)
            else:
                log.exception("could not extend %s", plural(len(messages), "lease"))
        finally:
            for leased in messages:
                leased.is_being_extended = False

    async def _extend_many(self, messages: list[LeasedMessage]) -> None:
        requested_at = monotonic()
        command = MessageExtendMany(*ids_and_tokens(messages), round(messages[0].lease_s * 1000))
        try:
            async with asyncio.timeout(messages[0].lease_s / 2):
                answers = await self._perform(command)
        except TimeoutError:
            if len(messages) > 1:
                raise
            return  # another transaction has locked it, or the database is slow: try again in a moment
        if self._is_unavailable:
            self._is_unavailable = False
            _call(self._worker_loop, self._in_loop.call_answered)
        for leased, answer in zip(messages, answers, strict=True):
            if answer.result is Result.EXTENDED:
                leased.extended(requested_at)
            elif answer.result in INTERRUPTING:
                self._request_interrupt(leased, INTERRUPTING[answer.result])

    def _perform(self, command: MessageExtendMany) -> Awaitable[list[Any]]:
        if self._queue is not None:
            return self._queue.perform(ask(command))
        answers = asyncio.run_coroutine_threadsafe(
            self._worker_queue.perform(ask(command)), self._worker_loop
        )
        return asyncio.wrap_future(answers)

    def _request_interrupt(self, leased: LeasedMessage, reason: StopReason) -> None:
        leased.is_interrupt_requested = True
        _call(self._worker_loop, self._in_loop.interrupt, leased, reason)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: Any) -> None:
    """Call a function in the loop of the other thread, unless that loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


def _set_ended(ended: asyncio.Future[None], failure: BaseException | None) -> None:
    if failure is None:
        ended.set_result(None)
    else:
        ended.set_exception(failure)
