"""Runs tasks where they are enqueued, without a database: for tests."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic
from uuid import UUID

from lonnymq.client.produce import OnFull
from lonnymq.commands import Created, Delivery, Result
from lonnymq.message_options import DEFAULT_LANE, NewMessage
from lonnymq.payload import HEADER, encode
from lonnymq.worker.job import AsyncJob, Job
from lonnymq.worker.task import C, Task

NO_TOKEN = UUID(int=0)


class InlineJobContext:
    """Stores nothing: there is no second attempt."""

    schema = ""
    is_stopped = False

    def completed_by_handler(self) -> None:
        """There is nothing to complete."""

    async def save(self, state: bytes) -> bool:  # noqa: ARG002
        return True

    def save_from_thread(self, state: bytes) -> bool:  # noqa: ARG002
        return True


class InlineJob(Job):
    def complete(self, *, conn: object) -> None:
        """There is nothing to complete."""


class InlineAsyncJob(AsyncJob):
    async def complete(self, *, conn: object) -> None:
        """There is nothing to complete."""


class Inline(Generic[C]):
    """Runs each call at once, after converting its arguments to JSON and back. Raises what the task raises.

    Delays, times and priorities are ignored, no channel is ever full, and `conn` is not used.
    """

    def __init__(self, *, is_async: bool) -> None:
        self._is_async = is_async
        self._ids = itertools.count(1)
        self.ran: list[NewMessage] = []

    def send(
        self,
        task: Task[..., Any, C],
        message: NewMessage,
        conn: object | None,  # noqa: ARG002
        on_full: OnFull,  # noqa: ARG002
    ) -> C:
        done: Any = self._run_async(task, message) if self._is_async else self._run(task, message)
        return done  # type: ignore[no-any-return]

    def _run(self, task: Task[..., Any, Any], message: NewMessage) -> Created:
        delivery = self._delivery(message)
        call = task.call_for(delivery)

        def call_in_job() -> None:
            (InlineAsyncJob if task.is_async else InlineJob)(delivery, InlineJobContext()).make_current()
            if task.is_async:
                asyncio.run(call())
            else:
                call()

        context = contextvars.copy_context()
        if task.is_async and has_running_loop():
            with ThreadPoolExecutor(1) as other_thread:
                other_thread.submit(context.run, call_in_job).result()
        else:
            context.run(call_in_job)
        return Created(delivery.id, Result.CREATED)

    async def _run_async(self, task: Task[..., Any, Any], message: NewMessage) -> Created:
        delivery = self._delivery(message)
        call = task.call_for(delivery)

        async def call_in_job() -> None:
            (InlineAsyncJob if task.is_async else InlineJob)(delivery, InlineJobContext()).make_current()
            result = call()
            if isinstance(result, Awaitable):
                await result

        await asyncio.create_task(call_in_job())
        return Created(delivery.id, Result.CREATED)

    def _delivery(self, message: NewMessage) -> Delivery:
        self.ran.append(message)
        content, content_type = encode(message.payload)
        headers = {HEADER: content_type, **(message.headers or {})}
        lane = message.lane or DEFAULT_LANE
        return Delivery(next(self._ids), message.channel, content, headers, None, 1, NO_TOKEN, 0, lane)


def has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
