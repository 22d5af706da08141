"""The queue that a broker, a result backend or a schedule source uses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, runtime_checkable

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.loop_safe_queue import LoopSafeQueue
from lonnymq.client.queue import Queue
from lonnymq.errors import InvalidArgument
from lonnymq.schema_name import check_schema_name
from lonnymq.worker.outages import RETRY_DELAYS, is_transient

Answer = TypeVar("Answer")

TRIES = 10  # about 20 seconds


@runtime_checkable
class HasQueue(Protocol):
    """A broker of this package: the others may share its connections."""

    @property
    def queue(self) -> AsyncQueue: ...


Source = str | AsyncQueue | Queue | HasQueue
"""A DSN, a queue, or a broker whose queue is shared."""


class QueueSource:
    """A queue that is made for a DSN belongs to this object. It is opened by its first call, in any event
    loop, and again after `close`. Any other queue belongs to somebody else.
    """

    def __init__(self, source: Source, schema: str | None) -> None:
        if schema is not None and not isinstance(source, str):
            raise InvalidArgument("schema is given together with a queue", "give it to the queue instead")
        if not isinstance(source, str | AsyncQueue | Queue | HasQueue):
            raise InvalidArgument(  # not its text: it may contain a password
                f"a {type(source).__name__} is not a queue",
                "give a DSN, a Queue, an AsyncQueue or a LonnyMQBroker",
            )
        self._source = source
        self._schema = "lonnymq" if schema is None else schema
        check_schema_name(self._schema)
        self._own: AsyncQueue | None = None

    def get(self) -> AsyncQueue:
        if isinstance(self._source, str):
            if self._own is None:
                self._own = LoopSafeQueue(self._source, self._schema)
            return self._own
        if isinstance(self._source, AsyncQueue | Queue):
            return self._source.as_async()
        return self._source.queue

    async def close(self) -> None:
        if self._own is not None:
            own, self._own = self._own, None
            await own.close()


async def retried(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """Call until there is an answer, for a while: taskiq does not repeat what fails."""
    for failures in range(1, TRIES):
        try:
            return await call()
        except Exception as error:
            if not is_transient(error):
                raise
        await asyncio.sleep(RETRY_DELAYS(failures))
    return await call()
