"""LonnyMQ, with the worker of this checkout."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import psycopg

from benchmarks.task_queues.tally import Tally
from benchmarks.task_queues.task_queue import POOL_SIZE, TASK, Kind, Mode, Producer, TaskQueue
from lonnymq import App, AsyncQueue, Worker
from lonnymq.install import install

CONCURRENCY = 100


class Ours(TaskQueue):
    name = "lonnymq"
    settings: ClassVar = {
        "batches": f"`concurrency={CONCURRENCY}`",
        "single": "`concurrency=1`, `prefetch=0`",
        "default": "`concurrency=10`",
    }
    unfinished = "FROM (SELECT FROM lonnymq.message UNION ALL SELECT FROM lonnymq.dead) AS there"
    finished = None
    async_commit = True

    def install(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            install(conn)

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        async with AsyncQueue(dsn, pool_size=POOL_SIZE) as queue:
            await queue.settings()  # it connects at the first call
            yield Enqueueing(queue)

    def work(self, dsn: str, kind: Kind, mode: Mode, tally: Tally, begin: Callable[[], None]) -> None:
        app = App(AsyncQueue(dsn, async_commit=self.async_commit))
        if kind == "async":

            @app.task(name=TASK)
            async def count(number: int) -> None:
                tally.add(number)
        else:
            app.task(name=TASK)(tally.add)
        begin()
        match mode:
            case "batches":
                worker = Worker(app, concurrency=CONCURRENCY)
            case "single":
                worker = Worker(app, concurrency=1, prefetch=0)
            case "default":
                worker = Worker(app)
        worker.run()


class OursDurable(Ours):
    """A dequeue waits for the disk, too, which is not its default."""

    name = "lonnymq, durable dequeue"
    async_commit = False


class Enqueueing:
    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue
        self._task = App(queue).task(name=TASK)(nothing)

    async def one(self, number: int) -> None:
        await self._task.enqueue(number)

    async def many(self, numbers: Sequence[int]) -> None:
        await self._queue.enqueue_many(self._task.message(number) for number in numbers)


def nothing(number: int) -> None:
    """The producer names it and never runs it."""
