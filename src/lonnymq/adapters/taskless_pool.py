"""A pool of psycopg connections that does not belong to an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from lonnymq.adapters.psycopg_pool import address_with_timeout, own_async_pool, translated_connect_errors


class TasklessPool(AsyncConnectionPool[AsyncConnection[Any]]):
    """A pool without background tasks, so that it does not belong to an event loop or have to be closed in
    one. Each event loop may have up to `max_size` connections in use.

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
        self._connect_arguments = address_with_timeout(self), kwargs
        self._configure_connection = configure
        self._idle: list[AsyncConnection[Any]] = []
        self._is_shut = False
        self._semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:  # noqa: ARG002, ASYNC109
        if self._is_shut:
            raise PoolClosed("the pool is closed")
        try:
            await asyncio.wait_for(self._semaphore().acquire(), self.timeout)
        except TimeoutError:
            raise PoolTimeout(f"{self.max_size} connections are in use") from None
        try:
            return self._take_idle() or await self._new_connection()
        except BaseException:
            self._semaphore().release()
            raise

    async def putconn(self, conn: AsyncConnection[Any]) -> None:
        self._semaphore().release()
        if conn.info.transaction_status == TransactionStatus.IDLE and not self._is_shut:
            self._idle.append(conn)
        else:
            await conn.close()

    async def close(self, timeout: float = 0) -> None:  # noqa: ARG002, ASYNC109
        self.close_now()

    def close_now(self) -> None:
        """Close it without an event loop. A connection that is in use is closed when it is returned."""
        self._is_shut = True
        while (connection := self._take_idle()) is not None:
            connection.pgconn.finish()

    def _take_idle(self) -> AsyncConnection[Any] | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    async def _new_connection(self) -> AsyncConnection[Any]:
        conninfo, keywords = self._connect_arguments
        with translated_connect_errors():
            connection = await AsyncConnection.connect(conninfo, **keywords)
        connection._pool = self  # noqa: SLF001 - so that `with` does not close it, as in psycopg's pools
        await self._configure_connection(connection)
        return connection

    def _semaphore(self) -> asyncio.Semaphore:
        return self._semaphores.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.max_size))


def own_taskless_pool(dsn: str, max_size: int, timeout: float) -> AsyncConnectionPool[Any]:
    """A pool of this kind. Its connections are in autocommit mode."""
    return own_async_pool(dsn, max_size, timeout, TasklessPool)
