"""Runs the tasks of all messages that are due, in the test's process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.commands import Delivery
from lonnymq.errors import InvalidArgument
from lonnymq.testing.loop_safe_queue import LoopSafeQueue
from lonnymq.worker.app import App
from lonnymq.worker.exceptions import Discard, Retry
from lonnymq.worker.worker import Worker


@dataclass
class Drained:
    """How many attempts had which outcome, and the errors of those that failed, in order."""

    completed: int = 0
    retried: int = 0
    discarded: int = 0
    errors: list[BaseException] = field(default_factory=list)

    def note(self, _message: Delivery, error: BaseException | None) -> None:
        if error is None:
            self.completed += 1
        elif isinstance(error, Retry):
            self.retried += 1
        elif isinstance(error, Discard):
            self.discarded += 1
        else:
            self.errors.append(error)


def drain(app: App[Any], *, raise_errors: bool = True) -> Drained:
    """Run the app's tasks for all messages that are due, and for those that the tasks enqueue, one at a time.
    Waits for messages that a channel's rate or concurrency limit holds back, or that an open transaction has
    dequeued, for as long as that lasts: end such a transaction of the test first. Messages that are scheduled
    for later, such as retries with a backoff, are not run, and neither are schedules.

    If handlers failed, the first error is raised in the end, unless `raise_errors` is false.

        send_invoice.enqueue(7)
        assert drain(app).completed == 1
    """
    _check_may_block(app)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(drain_async(app, raise_errors=raise_errors))


async def drain_async(app: App[Any], *, raise_errors: bool = True) -> Drained:
    """As drain, in the test's event loop."""
    drained = Drained()
    without_schedules = copy(app)
    without_schedules.crons = []  # a schedule that happens to be due must not disturb the test
    await Worker(without_schedules, concurrency=1, prefetch=0, on_result=drained.note).serve(until_empty=True)
    if drained.errors and raise_errors:
        raise drained.errors[0]
    return drained


def _check_may_block(app: App[Any]) -> None:
    hint = "use: await drain_async(app)"
    if isinstance(app.queue, AsyncQueue) and not isinstance(app.queue, LoopSafeQueue):
        raise InvalidArgument("an AsyncQueue belongs to one event loop, and drain creates another", hint)
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise InvalidArgument("drain blocks, and an event loop is running here", hint)
