"""PgQueuer, on asyncpg and uvloop. A dequeue takes up to `batch_size` jobs."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.task_queues.task_counter import TaskCounter
from benchmarks.task_queues.task_queue import POOL_SIZE, TASK, Kind, Mode, Producer, TaskQueue

BATCH_SIZES: dict[Mode, int] = {"batches": 1000, "single": 1, "default": 10}


class Pgqueuer(TaskQueue):
    name = "pgqueuer"
    settings: ClassVar = {mode: f"`batch_size={size}`" for mode, size in BATCH_SIZES.items()}
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
            yield PgqueuerProducer(Queries(AsyncpgPoolDriver(pool)))

    def work(self, dsn: str, kind: Kind, mode: Mode, counter: TaskCounter, begin: Callable[[], None]) -> None:
        def count(job: Job) -> None:
            assert job.payload is not None
            counter.add(json.loads(job.payload)["number"])

        async def count_async(job: Job) -> None:
            count(job)

        async def count_in_thread(job: Job) -> None:
            await asyncio.to_thread(
                count, job
            )  # it does not run plain functions; its documentation recommends this

        async def work() -> None:
            conn = await asyncpg.connect(dsn)
            manager = PgQueuer(AsyncpgDriver(conn))
            manager.entrypoint(TASK)(count_async if kind == "async" else count_in_thread)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, manager.shutdown.set)
            begin()
            await manager.run(batch_size=BATCH_SIZES[mode])
            await conn.close()

        uvloop.run(work())


class PgqueuerBalanced(Pgqueuer):
    """Its log, which it writes twice per job, is lost if the server crashes."""

    name = "pgqueuer, balanced"
    durability = Durability.balanced


class PgqueuerProducer:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def one(self, number: int) -> None:
        await self._queries.enqueue(TASK, payload(number))

    async def many(self, numbers: Sequence[int]) -> None:
        size = len(numbers)
        await self._queries.enqueue([TASK] * size, [payload(number) for number in numbers], [0] * size)


def payload(number: int) -> bytes:
    return json.dumps({"number": number}).encode()
