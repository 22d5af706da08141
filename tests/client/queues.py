"""Queues of every kind, all called alike: what a test asks of one, it asks of all."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from lonnymq import AsyncQueue, Queue
from tests.conformance.drivers import url


class Blocking:
    """What is awaited elsewhere, waited for: of a queue, a channel of it or its dead letters."""

    def __init__(self, target: Any, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return self._calling(found) if callable(found) else Blocking(found, self._runner)

    def _calling(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            answer = method(*args, **options)
            if inspect.iscoroutine(answer):
                return self._runner.run(answer)
            return Blocking(answer, self._runner)

        return call


@contextmanager
def on_dsn(dsn: str, **options: Any) -> Iterator[Any]:
    with Queue(dsn, **options) as queue:
        yield queue


@contextmanager
def on_psycopg_pool(dsn: str, **options: Any) -> Iterator[Any]:
    with ConnectionPool(dsn, min_size=1, open=True) as pool, Queue(pool, **options) as queue:
        yield queue


@contextmanager
def on_engine(dsn: str, **options: Any) -> Iterator[Any]:
    engine = create_engine(url(dsn, "psycopg"))
    with Queue(engine, **options) as queue:
        yield queue
    engine.dispose()


@contextmanager
def on_async_dsn(dsn: str, **options: Any) -> Iterator[Any]:
    with asyncio.Runner() as runner:
        queue = AsyncQueue(dsn, **options)
        yield Blocking(queue, runner)
        runner.run(queue.close())


@contextmanager
def on_async_psycopg_pool(dsn: str, **options: Any) -> Iterator[Any]:
    with asyncio.Runner() as runner:
        pool = AsyncConnectionPool(dsn, min_size=1, open=False)
        runner.run(pool.open())
        queue = AsyncQueue(pool, **options)
        yield Blocking(queue, runner)
        runner.run(queue.close())
        runner.run(pool.close())


@contextmanager
def on_asyncpg_pool(dsn: str, **options: Any) -> Iterator[Any]:
    with asyncio.Runner() as runner:
        pool = runner.run(made(asyncpg.create_pool(dsn, min_size=1, max_size=2)))
        queue = AsyncQueue(pool, **options)
        yield Blocking(queue, runner)
        runner.run(queue.close())
        runner.run(pool.close())


async def made(pool: Any) -> Any:
    return await pool


@contextmanager
def on_async_engine(dsn: str, driver: str = "asyncpg", **options: Any) -> Iterator[Any]:
    with asyncio.Runner() as runner:
        engine = create_async_engine(url(dsn, driver))
        queue = AsyncQueue(engine, **options)
        yield Blocking(queue, runner)
        runner.run(queue.close())
        runner.run(engine.dispose())


QUEUES: dict[str, Callable[..., Any]] = {
    "DSN": on_dsn,
    "psycopg pool": on_psycopg_pool,
    "SQLAlchemy engine": on_engine,
    "async, DSN": on_async_dsn,
    "async, psycopg pool": on_async_psycopg_pool,
    "async, asyncpg pool": on_asyncpg_pool,
    "async, SQLAlchemy engine": on_async_engine,
}
