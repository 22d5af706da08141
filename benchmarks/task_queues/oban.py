"""Oban for Python. A fetch takes as many jobs as the queue may still run."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

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
)

LIMIT = 100  # its guide on production speaks of a queue with this limit
RESCUE = {"interval": 1, "rescue_after": RECOVERY_SECONDS}


class Oban(TaskQueue):
    name = "oban"
    settings: ClassVar = {
        "batches": f"`limit={LIMIT}`",
        "single": "`limit=1`",
        "default": "`limit=10`",
        "recovering": f"`limit={RECOVERING}`, `lifeline={RESCUE}`",
    }
    unfinished = "FROM oban_jobs WHERE state <> 'completed'"
    finished = "FROM oban_jobs WHERE state = 'completed'"

    def install(self, dsn: str) -> None:
        import psycopg
        from oban.schema import install_sql

        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(install_sql())

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        import uvloop  # its command line runs on it

        uvloop.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        import oban

        pool = await oban.Oban.create_pool(dsn, min_size=POOL_SIZE, max_size=POOL_SIZE)
        yield ObanProducer(oban.Oban(pool=pool), task_of(lambda _number: asyncio.sleep(0)))
        await pool.close()

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        import oban

        assert kind == "async"
        limit = {"batches": LIMIT, "single": 1, "default": 10, "recovering": RECOVERING}[mode]

        async def work() -> None:
            stopping = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
            task_of(handler.add_async)
            pool = await oban.Oban.create_pool(dsn)
            begin()
            lifeline = RESCUE if mode == "recovering" else None
            async with oban.Oban(pool=pool, queues={TASK: limit}, lifeline=lifeline):
                await stopping.wait()
            await pool.close()

        self.run(work())


class ObanProducer:
    def __init__(self, client: Any, task: Any) -> None:  # noqa: ANN401 - they have no types here
        self._client = client
        self._task = task

    async def one(self, number: int) -> None:
        await self._client.enqueue(self._task.new({"number": number}))

    async def many(self, numbers: Sequence[int]) -> None:
        await self._client.enqueue_many([self._task.new({"number": number}) for number in numbers])


def task_of(function: Callable[[int], Coroutine[Any, Any, None]]) -> type:
    """Register the task. Its name is that of the class, in workers and producers."""
    from oban import worker

    @worker(queue=TASK)
    class Noop:
        async def process(self, job: Any) -> None:  # noqa: ANN401 - it has no types here
            await function(job.args["number"])

    return Noop
