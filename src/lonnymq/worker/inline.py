"""Runs tasks where they are enqueued, without a database: for tests."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from lonnymq.commands import Delivery, Result
from lonnymq.errors import ResultUnknown
from lonnymq.message_options import DEFAULT_LANE, Duration, NewMessage
from lonnymq.payload import HEADER, decode, encode
from lonnymq.worker.handle import AsyncHandle, Handle
from lonnymq.worker.job import AsyncJob, Job
from lonnymq.worker.task import Task

NO_TOKEN = UUID(int=0)


class InlineJobContext:
    """Stores nothing: there is no second attempt."""

    schema = ""
    observers = ()
    stop_reason = None
    is_interrupted = False

    def completed_by_handler(self) -> None:
        """There is nothing to complete."""

    def progress(self, fraction: float, note: str | None) -> None:
        """Nobody reads it."""

    async def save(self, state: bytes) -> bool:  # noqa: ARG002
        return True

    def save_from_thread(self, state: bytes) -> bool:  # noqa: ARG002
        return True


class InlineJob(Job):
    def complete(self, *, conn: object, result: Any = None, keep_result: Duration | None = None) -> None:
        """There is nothing to complete."""


class InlineAsyncJob(AsyncJob):
    async def complete(
        self, *, conn: object, result: Any = None, keep_result: Duration | None = None
    ) -> None:
        """There is nothing to complete."""


class Inline:
    """Runs each call at once, after converting its arguments to JSON and back. Raises what the task raises.

    Delays, times and priorities are ignored, no channel is ever full, and `conn` is not used.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self.ran: list[NewMessage] = []

    def send(self, task: Task[..., Any], message: NewMessage) -> Handle:
        delivery = self._delivery(message)
        call = task.call_for(delivery)

        def call_in_job() -> Any:
            (InlineAsyncJob if task.is_async else InlineJob)(delivery, InlineJobContext()).make_current()
            return asyncio.run(call()) if task.is_async else call()

        context = contextvars.copy_context()
        if task.is_async and has_running_loop():
            with ThreadPoolExecutor(1) as other_thread:
                value = other_thread.submit(context.run, call_in_job).result()
        else:
            value = context.run(call_in_job)
        return Handle(delivery.id, Result.CREATED, lambda *_: _kept(message, delivery.id, value))

    async def send_async(self, task: Task[..., Any], message: NewMessage) -> AsyncHandle:
        delivery = self._delivery(message)
        call = task.call_for(delivery)

        async def call_in_job() -> Any:
            (InlineAsyncJob if task.is_async else InlineJob)(delivery, InlineJobContext()).make_current()
            result = call()
            return await result if isinstance(result, Awaitable) else result

        value = await asyncio.create_task(call_in_job())

        async def wait(*_: Any) -> Any:
            return _kept(message, delivery.id, value)

        return AsyncHandle(delivery.id, Result.CREATED, wait)

    def _delivery(self, message: NewMessage) -> Delivery:
        self.ran.append(message)
        content, content_type = encode(message.payload)
        headers = {HEADER: content_type, **(message.headers or {})}
        return Delivery(
            *(next(self._ids), message.channel, content, headers, None, 1, NO_TOKEN, 0),
            *(message.lane or DEFAULT_LANE, message.priority or 0, message.cost or 1),
        )


def _kept(message: NewMessage, message_id: int, value: Any) -> Any:
    """The value that a call returned, encoded and decoded as a kept result is."""
    if not message.keep_result:
        raise ResultUnknown(f"the result of message {message_id} is not kept", "give the task keep_result=")
    return decode(*encode(value))


def has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
