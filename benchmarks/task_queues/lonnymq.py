"""LonnyMQ, with its own worker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import psycopg

from benchmarks.task_queues.task_queue import (
    POOL_SIZE,
    RECOVERING,
    RECOVERY_SECONDS,
    TASK,
    TENANT,
    Handler,
    Kind,
    Mode,
    Producer,
    TaskQueue,
    tenant_of,
)
from lonnymq import App, AsyncQueue, NewMessage, Worker
from lonnymq.install import install

CONCURRENCY = 100


class LonnyMQ(TaskQueue):
    name = "lonnymq"
    settings: ClassVar = {
        "batches": f"`concurrency={CONCURRENCY}`",
        "single": "`concurrency=1`, `prefetch=0`",
        "default": "`concurrency=10`",
        "recovering": f"`concurrency={RECOVERING}`, `lease={RECOVERY_SECONDS}`",
    }
    unfinished = "FROM (SELECT FROM lonnymq.message UNION ALL SELECT FROM lonnymq.dead) AS unfinished"
    finished = None
    async_commit = True
    keep_result: float | None = None

    def install(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            install(conn)

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        async with AsyncQueue(dsn, pool_size=POOL_SIZE) as queue:
            await queue.settings()  # connect now, not at the first enqueue
            yield LonnyMQProducer(queue, self.keep_result)

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        app = App(AsyncQueue(dsn, async_commit=self.async_commit))
        if kind == "async":

            @app.task(name=TASK)
            async def count(number: int) -> int:
                await handler.add_async(number)
                return number
        else:
            app.task(name=TASK)(handler.add)
        begin()
        match mode:
            case "batches":
                worker = Worker(app, concurrency=CONCURRENCY)
            case "single":
                worker = Worker(app, concurrency=1, prefetch=0)
            case "default":
                worker = Worker(app)
            case "recovering":
                worker = Worker(app, concurrency=RECOVERING, lease=RECOVERY_SECONDS)
        worker.run()


class DurableLonnyMQ(LonnyMQ):
    """A dequeue also waits for the disk, which is not the default."""

    name = "lonnymq, durable dequeue"
    async_commit = False


class KeepingLonnyMQ(LonnyMQ):
    """The worker keeps what each task returns for an hour; nobody waits for it."""

    name = "lonnymq, kept results"
    keep_result = 3600


class LimitedLonnyMQ(LonnyMQ):
    """One task of each tenant at a time, across all workers."""

    name = "lonnymq, limited"

    def install(self, dsn: str) -> None:
        super().install(dsn)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("SELECT lonnymq.queue_set(p_channel_max_concurrency => 1)")


class LonnyMQProducer:
    def __init__(self, queue: AsyncQueue, keep_result: float | None) -> None:
        self._queue = queue
        self._task = App(queue).task(name=TASK, keep_result=keep_result)(noop)

    async def one(self, number: int) -> None:
        if number < TENANT:
            await self._task.enqueue_async(number)
        else:
            await self._task.using(channel=channel(tenant_of(number))).enqueue_async(number)

    async def many(self, numbers: Sequence[int]) -> None:
        await self._queue.enqueue_many(map(self._message, numbers))

    def _message(self, number: int) -> NewMessage:
        if number < TENANT:
            return self._task.message(number)
        return self._task.using(channel=channel(tenant_of(number))).message(number)


def channel(tenant: int) -> str:
    return f"t{tenant}"


def noop(number: int) -> None:
    """Only gives the producer a task to enqueue; it never runs."""
