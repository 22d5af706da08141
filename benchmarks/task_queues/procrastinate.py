"""Procrastinate. It fetches one job at a time, and runs up to `concurrency` jobs at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.tasks import Task
from procrastinate.types import JSONDict

from benchmarks.task_queues.task_queue import (
    POOL_SIZE,
    RECOVERING,
    RECOVERY_SECONDS,
    TASK,
    Handler,
    Kind,
    Mode,
    Producer,
    TaskQueue,
    tenant_of,
)

CONCURRENCY = 30  # as its guide recommends


class Procrastinate(TaskQueue):
    name = "procrastinate"
    settings: ClassVar = {
        "batches": f"`concurrency={CONCURRENCY}`, one connection for each plus one",
        "single": "`concurrency=1`",
        "default": "`concurrency=1`",
        "recovering": f"`concurrency={RECOVERING}`, `update_heartbeat_interval=3`, "
        f"`stalled_worker_timeout={RECOVERY_SECONDS}`, a periodic task that retries stalled jobs",
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

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        concurrency = {"batches": CONCURRENCY, "recovering": RECOVERING}.get(mode, 1)
        app = App(connector=PsycopgConnector(conninfo=dsn, min_size=4, max_size=max(4, concurrency + 1)))

        if kind == "async":

            @app.task(name=TASK)
            async def count(number: int) -> None:
                await handler.add_async(number)
        else:
            app.task(name=TASK)(handler.add)

        begin()
        if mode == "recovering":
            retry_stalled_jobs(app)
            app.run_worker(
                concurrency=concurrency + 1,
                update_heartbeat_interval=RECOVERY_SECONDS / 3,
                stalled_worker_timeout=RECOVERY_SECONDS,
            )
        else:
            app.run_worker(concurrency=concurrency)


class LimitedProcrastinate(Procrastinate):
    """A lock for each tenant."""

    name = "procrastinate, limited"

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        app = App(connector=PsycopgConnector(conninfo=dsn, min_size=POOL_SIZE, max_size=POOL_SIZE))
        async with app.open_async():
            yield LockingProducer(app.task(name=TASK)(noop))


def retry_stalled_jobs(app: App) -> None:
    """As its guide recommends, but more often."""

    @app.periodic(cron="* * * * * */2")
    @app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
    async def retry(context: JobContext, timestamp: int) -> None:  # noqa: ARG001
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=RECOVERY_SECONDS):
            await app.job_manager.retry_job(job)


class ProcrastinateProducer:
    def __init__(self, task: Task[Any, Any, Any]) -> None:
        self._task = task

    async def one(self, number: int) -> None:
        await self._task.defer_async(number=number)

    async def many(self, numbers: Sequence[int]) -> None:
        calls: list[JSONDict] = [{"number": number} for number in numbers]
        await self._task.batch_defer_async(*calls)


class LockingProducer(ProcrastinateProducer):
    async def one(self, number: int) -> None:
        await self._task.configure(lock=str(tenant_of(number))).defer_async(number=number)

    async def many(self, numbers: Sequence[int]) -> None:
        for tenant in {tenant_of(number) for number in numbers}:
            calls: list[JSONDict] = [{"number": number} for number in numbers if tenant_of(number) == tenant]
            await self._task.configure(lock=str(tenant)).batch_defer_async(*calls)


def noop(number: int) -> None:
    """Only gives the producer a task to enqueue; it never runs."""
