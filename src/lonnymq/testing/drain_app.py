"""Runs the tasks of all messages that are due, in the test's process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.loop_safe_queue import LoopSafeQueue
from lonnymq.client.times import milliseconds
from lonnymq.commands import Delivery
from lonnymq.errors import InvalidArgument, LonnyMQError
from lonnymq.message_options import Duration
from lonnymq.testing.timeline import Timeline
from lonnymq.worker.app import App
from lonnymq.worker.exceptions import Discard, Retry
from lonnymq.worker.unknown_tasks import UnknownTask
from lonnymq.worker.worker import Worker

LIMIT = 1000


class NotDrained(LonnyMQError):
    """Many scheduled messages were run, and there are still more."""


@dataclass
class Drained:
    """How many attempts had which outcome, and the errors of those that failed, in order."""

    completed: int = 0
    retried: int = 0
    discarded: int = 0
    errors: list[BaseException] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set, repr=False, compare=False)
    """The ids of messages that no task of the app is for."""

    @property
    def attempts(self) -> int:
        """All of them."""
        return self.completed + self.retried + self.discarded + len(self.errors)

    def note(self, message: Delivery, error: BaseException | None) -> None:
        if isinstance(error, UnknownTask):
            self.unknown.add(message.id)
        if error is None:
            self.completed += 1
        elif isinstance(error, Retry):
            self.retried += 1
        elif isinstance(error, Discard):
            self.discarded += 1
        else:
            self.errors.append(error)


def drain(
    app: App, *, with_scheduled: bool | Duration = False, limit: int = LIMIT, raise_errors: bool = True
) -> Drained:
    """Run the app's tasks for all messages that are due, and for those that the tasks enqueue, one at a time.
    Waits for messages that a channel's rate or concurrency limit holds back, or that an open transaction has
    dequeued, for as long as that lasts: end such a transaction of the test first.

    Messages that are scheduled for later, such as retries with a backoff, are not run. With `with_scheduled`
    they are, in the order of their times, as if the time passed meanwhile: all of them, or those that are due
    within a duration. Raises NotDrained after `limit` of them. Schedules (`@app.cron`) never create messages
    here: enqueue the task instead.

    If handlers failed, the first error is raised in the end, unless `raise_errors` is false.

        send_invoice.enqueue(7)
        assert drain(app).completed == 1
    """
    _check_may_block(app)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(
            drain_async(app, with_scheduled=with_scheduled, limit=limit, raise_errors=raise_errors)
        )


async def drain_async(
    app: App, *, with_scheduled: bool | Duration = False, limit: int = LIMIT, raise_errors: bool = True
) -> Drained:
    """As drain, in the test's event loop."""
    drained = Drained()
    app.load_tasks()
    without_schedules = copy(app)
    without_schedules.crons = []  # a schedule that happens to be due must not disturb the test
    await _run_due(without_schedules, drained)
    if with_scheduled is not False:
        within_ms = None if with_scheduled is True else milliseconds(with_scheduled)
        timeline = await Timeline.begin(app.queue.as_async(), within_ms)
        for _ in range(limit):
            is_more_scheduled = await timeline.advance(drained.unknown)
            if not is_more_scheduled and not await timeline.has_become_due(drained.unknown):
                break
            attempts = drained.attempts
            await _run_due(without_schedules, drained)
            if not is_more_scheduled and drained.attempts == attempts:
                break  # what is due is in a paused channel
        else:
            if (left := await timeline.count(drained.unknown)) > 0:
                raise NotDrained(
                    f"{limit} scheduled messages were run, and there are still {left}",
                    "raise the limit; if tasks always enqueue another one, give with_scheduled a duration",
                )
    if drained.errors and raise_errors:
        raise drained.errors[0]
    return drained


async def _run_due(app: App, drained: Drained) -> None:
    await Worker(app, concurrency=1, prefetch=0, on_result=drained.note).serve(until_empty=True)


def _check_may_block(app: App) -> None:
    hint = "use: await drain_async(app)"
    if isinstance(app.queue, AsyncQueue) and not isinstance(app.queue, LoopSafeQueue):
        raise InvalidArgument("an AsyncQueue belongs to one event loop, and drain creates another", hint)
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise InvalidArgument("drain blocks, and an event loop is running here", hint)
