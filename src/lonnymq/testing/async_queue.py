"""An AsyncQueue for tests, whatever they do with event loops."""

from __future__ import annotations

import asyncio

from lonnymq.adapters.psycopg_pool import own_async_pool
from lonnymq.queue.async_queue import AsyncQueue

POOL_SIZE = 10
TIMEOUT = 30


class AnyLoopQueue(AsyncQueue):
    """It may be used in one event loop after the other, and be closed from outside of them.

    A pool lives by tasks in the loop that it was opened in. So each loop gets a pool.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        super().__init__(dsn, schema, pool_size=POOL_SIZE, timeout=TIMEOUT)
        self._dsn = dsn
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _opened(self) -> object:
        running = asyncio.get_running_loop()
        if self._loop not in {None, running}:
            self._source = self._own_pool = own_async_pool(self._dsn, POOL_SIZE, TIMEOUT)
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
