"""Queues on every kind of connection, each used as a Queue: an AsyncQueue runs on its own event loop."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import asyncpg
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from lonnymq import AsyncQueue, Queue
from lonnymq.client.async_queue import AsyncBatch, AsyncChannel, AsyncDead
from tests.conformance.drivers import url

Answer = TypeVar("Answer")
Options = dict[str, Any]
Run = Callable[[Coroutine[Any, Any, Answer]], Answer]


@dataclass(frozen=True)
class OpenedQueue:
    """A queue; `fetch_value` runs a query on a connection of its pool, and returns the one value."""

    queue: Queue
    fetch_value: Callable[[str], Any]


class Blocking:
    """An AsyncQueue, or a part of one, that any thread can call; calls return the awaited result."""

    def __init__(self, inner: object, run: Run[Any]) -> None:
        self._inner = inner
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return self._wrap(getattr(self._inner, name))

    def _wrap(self, found: Any) -> Any:
        if isinstance(found, AsyncBatch | AsyncChannel | AsyncDead):
            return Blocking(found, self._run)
        if isinstance(found, AbstractAsyncContextManager):
            return self._entered(found)
        if not callable(found):
            return found

        def call(*arguments: Any, **keywords: Any) -> Any:
            answer = found(*arguments, **keywords)
            return self._run(answer) if inspect.iscoroutine(answer) else self._wrap(answer)

        return call

    @contextmanager
    def _entered(self, entered: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        given = self._run(_enter(entered))
        try:
            yield self._wrap(given)
        except BaseException as error:
            self._run(_leave(entered, error))
            raise
        self._run(_leave(entered, None))


async def _enter(entered: AbstractAsyncContextManager[Any]) -> Any:
    return await entered.__aenter__()


async def _leave(entered: AbstractAsyncContextManager[Any], error: BaseException | None) -> None:
    await entered.__aexit__(None if error is None else type(error), error, None)


@contextmanager
def loop() -> Iterator[Run[Any]]:
    """Run an event loop in a thread, as an asynchronous program would."""
    with asyncio.Runner() as runner:
        event_loop = runner.get_loop()
        thread = threading.Thread(target=event_loop.run_forever)
        thread.start()

        def run(awaited: Coroutine[Any, Any, Any]) -> Any:
            return asyncio.run_coroutine_threadsafe(awaited, event_loop).result()

        try:
            yield run
        finally:
            event_loop.call_soon_threadsafe(event_loop.stop)
            thread.join()


@contextmanager
def opened_queue(kind: str, dsn: str, size: int = 1, **options: Any) -> Iterator[OpenedQueue]:
    """A queue of this kind, with at most `size` connections; options go to the Queue."""
    if kind in SYNC:
        with SYNC[kind](dsn, size, options) as queue:
            yield queue
        return
    with loop() as run:
        opened = ASYNC[kind](dsn, size, options)
        queue, fetch_value = run(opened.__aenter__())
        try:
            yield OpenedQueue(cast("Queue", Blocking(queue, run)), lambda query: run(fetch_value(query)))
        finally:
            run(opened.__aexit__(None, None, None))


@contextmanager
def queue_of(kind: str, dsn: str, **options: Any) -> Iterator[Any]:
    with opened_queue(kind, dsn, size=4, **options) as opened:
        yield opened.queue


def _value(pool: ConnectionPool[Any], query: str) -> Any:
    with pool.connection() as connection:
        return connection.execute(query.encode()).fetchall()[0][0]


async def _value_async(pool: AsyncConnectionPool[Any], query: str) -> Any:
    async with pool.connection() as connection:
        return (await (await connection.execute(query.encode())).fetchall())[0][0]


@contextmanager
def _own(dsn: str, size: int, options: Options) -> Iterator[OpenedQueue]:
    with Queue(dsn, pool_size=size, **options) as queue:

        def fetch_value(query: str) -> Any:
            pool: Any = queue._opened()
            return _value(pool, query)

        yield OpenedQueue(queue, fetch_value)


@contextmanager
def _psycopg_pool(dsn: str, size: int, options: Options) -> Iterator[OpenedQueue]:
    with (
        ConnectionPool(dsn, min_size=1, max_size=size) as pool,
        Queue(pool, **options) as queue,
    ):
        yield OpenedQueue(queue, lambda query: _value(pool, query))


@contextmanager
def _sqlalchemy(dsn: str, size: int, options: Options) -> Iterator[OpenedQueue]:
    engine = create_engine(url(dsn, "psycopg"), pool_size=size, max_overflow=0, pool_pre_ping=True)
    with _disposed(engine), Queue(engine, **options) as queue:

        def fetch_value(query: str) -> Any:
            with engine.connect() as connection:
                return connection.execute(text(query)).scalar_one()

        yield OpenedQueue(queue, fetch_value)


@contextmanager
def _disposed(engine: Engine) -> Iterator[None]:
    try:
        yield
    finally:
        engine.dispose()


Opened = AsyncIterator[tuple[AsyncQueue, Callable[[str], Coroutine[Any, Any, Any]]]]


@asynccontextmanager
async def _own_async(dsn: str, size: int, options: Options) -> Opened:
    async with AsyncQueue(dsn, pool_size=size, **options) as queue:

        async def fetch_value(query: str) -> Any:
            pool: Any = await queue._opened()
            return await _value_async(pool, query)

        yield queue, fetch_value


@asynccontextmanager
async def _psycopg_async_pool(dsn: str, size: int, options: Options) -> Opened:
    async with (
        AsyncConnectionPool(dsn, min_size=1, max_size=size, open=False) as pool,
        AsyncQueue(pool, **options) as queue,
    ):

        async def fetch_value(query: str) -> Any:
            return await _value_async(pool, query)

        yield queue, fetch_value


@asynccontextmanager
async def _asyncpg_pool(dsn: str, size: int, options: Options) -> Opened:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=size) as pool,
        AsyncQueue(pool, **options) as queue,
    ):

        async def fetch_value(query: str) -> Any:
            return await pool.fetchval(query)

        yield queue, fetch_value


def _sqlalchemy_async(driver: str) -> Callable[[str, int, Options], Any]:
    @asynccontextmanager
    async def opened(dsn: str, size: int, options: Options) -> Opened:
        engine = create_async_engine(url(dsn, driver), pool_size=size, max_overflow=0, pool_pre_ping=True)
        async with _disposed_async(engine), AsyncQueue(engine, **options) as queue:

            async def fetch_value(query: str) -> Any:
                async with engine.connect() as connection:
                    return (await connection.execute(text(query))).scalar_one()

            yield queue, fetch_value

    return opened


@asynccontextmanager
async def _disposed_async(engine: AsyncEngine) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await engine.dispose()


SYNC: dict[str, Callable[[str, int, Options], Any]] = {
    "Queue": _own,
    "psycopg pool": _psycopg_pool,
    "SQLAlchemy engine": _sqlalchemy,
}
ASYNC: dict[str, Callable[[str, int, Options], Any]] = {
    "AsyncQueue": _own_async,
    "psycopg async pool": _psycopg_async_pool,
    "asyncpg pool": _asyncpg_pool,
    "SQLAlchemy async engine, psycopg": _sqlalchemy_async("psycopg"),
    "SQLAlchemy async engine, asyncpg": _sqlalchemy_async("asyncpg"),
}
OWN_POOL = ("Queue", "AsyncQueue")
KINDS = (*SYNC, *ASYNC)
