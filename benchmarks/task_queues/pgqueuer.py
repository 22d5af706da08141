"""PgQueuer, on asyncpg and uvloop. A dequeue takes up to `batch_size` jobs."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.models import Job
from pgqueuer.queries import Queries

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

BATCH_SIZES: dict[Mode, int] = {"batches": 1000, "single": 1, "default": 10, "recovering": RECOVERING}
LIMITED_TENANTS = range(1, 101)


class Pgqueuer(TaskQueue):
    name = "pgqueuer"
    settings: ClassVar = {mode: f"`batch_size={size}`" for mode, size in BATCH_SIZES.items()} | {
        "recovering": f"`batch_size={RECOVERING}`, `heartbeat_timeout` of {RECOVERY_SECONDS} s"
    }
    unfinished = "FROM pgqueuer"
    finished = "FROM pgqueuer_log WHERE status = 'successful'"
    durability = Durability.durable

    def install(self, dsn: str) -> None:
        async def install() -> None:
            conn = await asyncpg.connect(dsn)
            queries = Queries(AsyncpgDriver(conn))
            queries.qbe.settings = DBSettings(durability=self.durability)
            await queries.install()
            await queries.optimize_autovacuum()
            await conn.close()

        uvloop.run(install())

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        uvloop.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        async with asyncpg.create_pool(dsn, min_size=POOL_SIZE, max_size=POOL_SIZE) as pool:
            yield PgqueuerProducer(Queries(AsyncpgPoolDriver(pool)), self.entrypoint)

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        def count(job: Job) -> None:
            assert job.payload is not None
            handler.add(json.loads(job.payload)["number"])

        async def count_async(job: Job) -> None:
            assert job.payload is not None
            await handler.add_async(json.loads(job.payload)["number"])

        async def count_in_thread(job: Job) -> None:
            await asyncio.to_thread(
                count, job
            )  # it does not run plain functions; its documentation recommends this

        async def work() -> None:
            conn = await asyncpg.connect(dsn)
            manager = PgQueuer(AsyncpgDriver(conn))
            self.register(manager, count_async if kind == "async" else count_in_thread)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, manager.shutdown.set)
            begin()
            heartbeat_timeout = timedelta(seconds=RECOVERY_SECONDS if mode == "recovering" else 30)
            await manager.run(batch_size=BATCH_SIZES[mode], heartbeat_timeout=heartbeat_timeout)
            await conn.close()

        uvloop.run(work())

    def register(self, manager: PgQueuer, function: Callable[[Job], Coroutine[Any, Any, None]]) -> None:
        manager.entrypoint(TASK)(function)

    def entrypoint(self, _number: int) -> str:
        return TASK


class PgqueuerLimited(Pgqueuer):
    """An entrypoint for each tenant, known when the workers start; one job of each at a time."""

    name = "pgqueuer, limited"

    def register(self, manager: PgQueuer, function: Callable[[Job], Coroutine[Any, Any, None]]) -> None:
        for tenant in LIMITED_TENANTS:
            manager.entrypoint(f"{TASK}-{tenant}", concurrency_limit=1)(function)

    def entrypoint(self, number: int) -> str:
        return f"{TASK}-{tenant_of(number)}"


class PgqueuerBalanced(Pgqueuer):
    """Its log, which it writes twice per job, is lost if the server crashes."""

    name = "pgqueuer, balanced"
    durability = Durability.balanced


class PgqueuerProducer:
    def __init__(self, queries: Queries, entrypoint: Callable[[int], str]) -> None:
        self._queries = queries
        self._entrypoint = entrypoint

    async def one(self, number: int) -> None:
        await self._queries.enqueue(self._entrypoint(number), payload(number))

    async def many(self, numbers: Sequence[int]) -> None:
        size = len(numbers)
        entrypoints = list(map(self._entrypoint, numbers))
        await self._queries.enqueue(entrypoints, [payload(number) for number in numbers], [0] * size)


def payload(number: int) -> bytes:
    return json.dumps({"number": number}).encode()
