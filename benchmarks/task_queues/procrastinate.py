"""Procrastinate. It fetches one job at a time, and runs up to `concurrency` jobs at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from procrastinate import App, PsycopgConnector
from procrastinate.tasks import Task
from procrastinate.types import JSONDict

from benchmarks.task_queues.task_counter import TaskCounter
from benchmarks.task_queues.task_queue import POOL_SIZE, TASK, Kind, Mode, Producer, TaskQueue

CONCURRENCY = 30  # as its guide recommends


class Procrastinate(TaskQueue):
    name = "procrastinate"
    settings: ClassVar = {
        "batches": f"`concurrency={CONCURRENCY}`, one connection for each plus one",
        "single": "`concurrency=1`",
        "default": "`concurrency=1`",
    }
    unfinished = "FROM procrastinate_jobs WHERE status <> 'succeeded'"
    finished = "FROM procrastinate_jobs WHERE status = 'succeeded'"
    share = 0.1

    def install(self, dsn: str) -> None:
        with App(connector=PsycopgConnector(conninfo=dsn)).open() as app:
            app.schema_manager.apply_schema()

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        app = App(connector=PsycopgConnector(conninfo=dsn, min_size=POOL_SIZE, max_size=POOL_SIZE))
        async with app.open_async():
            yield ProcrastinateProducer(app.task(name=TASK)(noop))

    def work(self, dsn: str, kind: Kind, mode: Mode, counter: TaskCounter, begin: Callable[[], None]) -> None:
        concurrency = CONCURRENCY if mode == "batches" else 1
        app = App(connector=PsycopgConnector(conninfo=dsn, min_size=4, max_size=max(4, concurrency + 1)))

        if kind == "async":

            @app.task(name=TASK)
            async def count(number: int) -> None:
                counter.add(number)
        else:
            app.task(name=TASK)(counter.add)

        begin()
        app.run_worker(concurrency=concurrency)


class ProcrastinateProducer:
    def __init__(self, task: Task[Any, Any, Any]) -> None:
        self._task = task

    async def one(self, number: int) -> None:
        await self._task.defer_async(number=number)

    async def many(self, numbers: Sequence[int]) -> None:
        calls: list[JSONDict] = [{"number": number} for number in numbers]
        await self._task.batch_defer_async(*calls)


def noop(number: int) -> None:
    """Only gives the producer a task to enqueue; it never runs."""
