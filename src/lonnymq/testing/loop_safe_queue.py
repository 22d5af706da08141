"""An AsyncQueue for tests that use several event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from lonnymq.adapters.psycopg_pool import own_async_pool
from lonnymq.client.async_queue import AsyncQueue

POOL_SIZE = 10
TIMEOUT_S = 30


class TasklessPool(AsyncConnectionPool[AsyncConnection[Any]]):
    """A pool without background tasks, so that it does not belong to an event loop or have to be closed in
    one.

    psycopg's pool has such tasks. When asyncio.run cancels them at its end, a task that is connecting takes
    that for a failed connection and goes on, and asyncio.run waits for it for ever.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        configure: Callable[[AsyncConnection[Any]], Awaitable[None]],
        kwargs: dict[str, Any],
        max_size: int,
        **options: Any,  # noqa: ANN401 - passed on to psycopg
    ) -> None:
        super().__init__(conninfo, kwargs=kwargs, max_size=max_size, **options)
        self._connect_arguments = conninfo, kwargs
        self._configure_connection = configure
        self._idle: list[AsyncConnection[Any]] = []
        self._semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:  # noqa: ARG002, ASYNC109
        try:
            await asyncio.wait_for(self._semaphore().acquire(), self.timeout)
        except TimeoutError:
            raise PoolTimeout(f"{self.max_size} connections are in use") from None
        try:
            return self._idle.pop() if self._idle else await self._connect()
        except BaseException:
            self._semaphore().release()
            raise

    async def putconn(self, conn: AsyncConnection[Any]) -> None:
        self._semaphore().release()
        if conn.info.transaction_status == TransactionStatus.IDLE:
            self._idle.append(conn)
        else:
            await conn.close()

    async def close(self, timeout: float = 0) -> None:  # noqa: ARG002, ASYNC109
        while self._idle:
            await self._idle.pop().close()

    async def _connected(self) -> AsyncConnection[Any]:
        conninfo, keywords = self._connect_arguments
        connection = await AsyncConnection.connect(conninfo, **keywords)
        connection._pool = self  # noqa: SLF001 - so that `with` does not close it, as in psycopg's pools
        await self._configure_connection(connection)
        return connection

    def _semaphore(self) -> asyncio.Semaphore:
        return self._semaphores.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.max_size))


class LoopSafeQueue(AsyncQueue):
    """Can be used in several event loops, one after the other, and closed outside of them."""

    def __init__(self, dsn: str, schema: str) -> None:
        pool = own_async_pool(dsn, POOL_SIZE, TIMEOUT_S, TasklessPool)
        super().__init__(pool, schema)
        self._own_pool = pool

    def close_without_loop(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self.close())
