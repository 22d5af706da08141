"""Messages that are created in the transaction of a request."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any, ParamSpec, Unpack

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import shows
from lonnymq.client.produce import Enqueued, OnFull
from lonnymq.client.queue import Queue
from lonnymq.commands import Created
from lonnymq.message_options import DEFAULT_CHANNEL, MessageOptions
from lonnymq.worker.task import Task, Using

P = ParamSpec("P")


class _Messages:
    def __init__(self, conn: object, channel: str | None) -> None:
        self.conn = conn
        self.channel = channel

    def _channel(self, channel: str | None) -> str:
        """The queue refuses an empty name: a request without a tenant must not use the default channel."""
        chosen = self.channel if channel is None else channel
        return DEFAULT_CHANNEL if chosen is None else chosen

    @shows(MessageOptions)
    def using(
        self,
        task: Task[P, Any],
        *,
        channel: str | None = None,
        on_full: OnFull = "raise",
        **options: Unpack[MessageOptions],
    ) -> Using[P]:
        """The task, whose calls are enqueued in the transaction: `await
        messages.using(send_invoice).enqueue_async(7)`.
        """
        chosen = self.channel if channel is None else channel
        return task.using(channel=chosen, on_full=on_full, conn=self.conn, **options)


class AsyncMessages(_Messages):
    """Creates messages in a transaction of yours, by default in the given channel. They exist once that
    transaction commits.
    """

    def __init__(self, queue: AsyncQueue, conn: object, channel: str | None = None) -> None:
        super().__init__(conn, channel)
        self.queue = queue

    @shows(MessageOptions)
    async def enqueue(
        self,
        payload: Any,
        *,
        channel: str | None = None,
        on_full: OnFull = "raise",
        **options: Unpack[MessageOptions],
    ) -> Created:
        """As AsyncQueue.enqueue, in the transaction."""
        chosen = self._channel(channel)
        return await self.queue.enqueue(payload, channel=chosen, on_full=on_full, conn=self.conn, **options)

    async def enqueue_many(
        self,
        values: Iterable[Any] | AsyncIterable[Any],
        *,
        channel: str | None = None,
        on_full: OnFull = "raise",
    ) -> Enqueued:
        """As AsyncQueue.enqueue_many, in the transaction."""
        chosen = self._channel(channel)
        return await self.queue.enqueue_many(values, channel=chosen, on_full=on_full, conn=self.conn)


class Messages(_Messages):
    """As AsyncMessages, for functions without `async`."""

    def __init__(self, queue: Queue, conn: object, channel: str | None = None) -> None:
        super().__init__(conn, channel)
        self.queue = queue

    @shows(MessageOptions)
    def enqueue(
        self,
        payload: Any,
        *,
        channel: str | None = None,
        on_full: OnFull = "raise",
        **options: Unpack[MessageOptions],
    ) -> Created:
        """As Queue.enqueue, in the transaction."""
        chosen = self._channel(channel)
        return self.queue.enqueue(payload, channel=chosen, on_full=on_full, conn=self.conn, **options)

    def enqueue_many(
        self, values: Iterable[Any], *, channel: str | None = None, on_full: OnFull = "raise"
    ) -> Enqueued:
        """As Queue.enqueue_many, in the transaction."""
        chosen = self._channel(channel)
        return self.queue.enqueue_many(values, channel=chosen, on_full=on_full, conn=self.conn)
