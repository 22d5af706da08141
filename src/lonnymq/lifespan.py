"""Opens a queue with an application and closes it with it: the part that lonnymq.fastapi and lonnymq.litestar
share.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.queue import Queue
from lonnymq.worker.worker import Worker

QueueSource = str | Queue | AsyncQueue | Callable[[], Queue | AsyncQueue]
"""A DSN, a queue, or a function that makes one."""

_log = logging.getLogger("lonnymq.lifespan")


@asynccontextmanager
async def opened(source: QueueSource, worker: Worker | None = None) -> AsyncIterator[AsyncQueue]:
    """The queue, while the application runs. Raises at once if the database or the schema is not there."""
    queue = _made(source)
    try:
        async_queue = queue.as_async()
        await async_queue.settings()
        async with _serving(worker):
            yield async_queue
    finally:
        if isinstance(queue, AsyncQueue):
            await queue.close()
        else:
            await asyncio.to_thread(queue.close)


def _made(source: QueueSource) -> Queue | AsyncQueue:
    if isinstance(source, str):
        return AsyncQueue(source)
    return source if isinstance(source, Queue | AsyncQueue) else source()


@asynccontextmanager
async def _serving(worker: Worker | None) -> AsyncIterator[None]:
    """Run the worker beside the application. At the end, let its running handlers finish."""
    if worker is None:
        yield
        return
    serving = asyncio.create_task(worker.serve())
    serving.add_done_callback(_report)
    try:
        yield
    finally:
        worker.stop()
        with suppress(Exception):  # it has been logged
            await serving


def _report(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled() and (error := serving.exception()) is not None:
        _log.error("the worker of this application stopped; restart the application", exc_info=error)
