"""An AsyncQueue for tests, whatever they do with event loops."""

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
TIMEOUT = 30


class PlainPool(AsyncConnectionPool[AsyncConnection[Any]]):
    """A pool without tasks of its own, so that it belongs to no event loop, and need not be closed in one.

    psycopg's has some. When asyncio.run cancels them at its end, one that is just connecting takes that for a
    failure to connect and goes on, and asyncio.run waits for it for ever.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        configure: Callable[[AsyncConnection[Any]], Awaitable[None]],
        kwargs: dict[str, Any],
        max_size: int,
        **options: Any,  # noqa: ANN401 - they are psycopg's
    ) -> None:
        super().__init__(conninfo, kwargs=kwargs, max_size=max_size, **options)
        self._made_with = conninfo, kwargs
        self._adjust = configure
        self._idle: list[AsyncConnection[Any]] = []
        self._room: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:  # noqa: ARG002, ASYNC109
        try:
            await asyncio.wait_for(self._room_here().acquire(), self.timeout)
        except TimeoutError:
            raise PoolTimeout(f"{self.max_size} connections are in use") from None
        try:
            return self._idle.pop() if self._idle else await self._connected()
        except BaseException:
            self._room_here().release()
            raise

    async def putconn(self, conn: AsyncConnection[Any]) -> None:
        self._room_here().release()
        if conn.info.transaction_status == TransactionStatus.IDLE:
            self._idle.append(conn)
        else:
            await conn.close()

    async def close(self, timeout: float = 0) -> None:  # noqa: ARG002, ASYNC109
        while self._idle:
            await self._idle.pop().close()

    async def _connected(self) -> AsyncConnection[Any]:
        conninfo, keywords = self._made_with
        connection = await AsyncConnection.connect(conninfo, **keywords)
        connection._pool = self  # noqa: SLF001 - so that leaving a `with` leaves it open, as psycopg's pools do
        await self._adjust(connection)
        return connection

    def _room_here(self) -> asyncio.Semaphore:
        return self._room.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.max_size))


class AnyLoopQueue(AsyncQueue):
    """It may be used in one event loop after the other, and be closed from outside of them."""

    def __init__(self, dsn: str, schema: str) -> None:
        pool = own_async_pool(dsn, POOL_SIZE, TIMEOUT, PlainPool)
        super().__init__(pool, schema)
        self._own_pool = pool

    def end(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self.close())
