"""An AsyncQueue for tests, whatever they do with event loops."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Self

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from psycopg_pool.pool_async import MaintenanceTask, StopWorker

from lonnymq.adapters.psycopg_pool import own_async_pool
from lonnymq.queue.async_queue import AsyncQueue

log = logging.getLogger("lonnymq")

POOL_SIZE = 10
TIMEOUT = 30


class AbandonedConnection(AsyncConnection[Any]):
    """It is gone as soon as its connecting is cancelled.

    Else whoever keeps the error, as pytest does when it is logged, keeps the server waiting for a password,
    and while it waits no database is dropped.
    """

    @classmethod
    async def connect(cls, *args: Any, **keywords: Any) -> Self:  # noqa: ANN401 - they are psycopg's
        with suppress(asyncio.CancelledError):
            return await super().connect(*args, **keywords)
        raise asyncio.CancelledError  # another one, which knows nothing of the connection


class AbandonedPool(AsyncConnectionPool[AbandonedConnection]):
    """It need not be closed before its loop ends.

    asyncio.run cancels what is left of a loop's tasks and waits for their end. A task of psycopg's pool that
    is just connecting takes that for a failure to connect, and goes on, for ever.
    """

    def __init__(self, conninfo: str, **options: Any) -> None:  # noqa: ANN401 - they are psycopg's
        super().__init__(conninfo, connection_class=AbandonedConnection, **options)

    @classmethod
    async def worker(cls, q: asyncio.Queue[MaintenanceTask]) -> None:
        ours = asyncio.current_task()
        while ours is not None and not ours.cancelling():
            if isinstance(task := await q.get(), StopWorker):
                return
            try:
                await task.run()
            except Exception as error:  # noqa: BLE001 - as psycopg does: the pool goes on
                log.warning("%s failed: %s", task, error)


class AnyLoopQueue(AsyncQueue):
    """It may be used in one event loop after the other, and be closed from outside of them.

    A pool lives by tasks in the loop that it was opened in. So each loop gets a pool.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        super().__init__(dsn, schema)
        self._dsn = dsn
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _opened(self) -> object:
        running = asyncio.get_running_loop()
        if self._loop is not running:
            self._source = self._own_pool = own_async_pool(self._dsn, POOL_SIZE, TIMEOUT, AbandonedPool)
            self._opening = asyncio.Lock()
            self._is_open = False
            self._loop = running
        return await super()._opened()

    def end(self) -> None:
        """Close it, in its loop if that can still run."""
        if self._loop is None:
            return
        if self._loop.is_closed() or self._loop.is_running():
            self._own_pool = None  # its tasks end with their loop, its connections with the database
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(self.close())
        else:
            self._loop.run_until_complete(self.close())
