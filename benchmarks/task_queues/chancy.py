"""Chancy. A queue polls, is woken by notifications, and fetches as many jobs as it may still run."""

import asyncio
import logging
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

CONCURRENCY = 100  # the default of its executor for asyncio
LOG = logging.getLogger("chancy.bench")
LOG.setLevel(logging.ERROR)
state: dict[str, Handler] = {}


async def noop(*, number: int) -> None:
    """The task, which a worker imports by its name."""
    await state["handler"].add_async(number)


class Chancy(TaskQueue):
    name = "chancy"
    settings: ClassVar = {
        "batches": f"`AsyncExecutor`, `concurrency={CONCURRENCY}`, `eager_polling`",
        "single": "`AsyncExecutor`, `concurrency=1`, `eager_polling`",
        "default": "`AsyncExecutor`",
        "recovering": f"`concurrency={RECOVERING}`, `heartbeat_timeout={RECOVERY_SECONDS}`, "
        "`Recovery(poll_interval=1)`",
    }
    unfinished = "FROM chancy_jobs WHERE state <> 'succeeded'"
    finished = "FROM chancy_jobs WHERE state = 'succeeded'"

    def install(self, dsn: str) -> None:
        import chancy

        async def install() -> None:
            async with chancy.Chancy(dsn, log=LOG) as app:
                await app.migrate()

        asyncio.run(install())

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        import chancy

        pools = {"min_connection_pool_size": POOL_SIZE, "max_connection_pool_size": POOL_SIZE}
        async with chancy.Chancy(dsn, log=LOG, **pools) as app:
            await app.get_all_queues()  # connect now
            yield ChancyProducer(app, chancy.job(queue=TASK)(noop))

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        import chancy
        from chancy.plugins.recovery import Recovery

        assert kind == "async"
        concurrency = {"single": 1, "recovering": RECOVERING}.get(mode, CONCURRENCY)
        chancy.job(queue=TASK)(noop)
        state["handler"] = handler

        async def work() -> None:
            plugins, timing = [], {}
            if mode == "recovering":
                plugins = [Recovery(poll_interval=1)]
                timing = {"heartbeat_poll_interval": 3, "heartbeat_timeout": RECOVERY_SECONDS}
            async with chancy.Chancy(dsn, log=LOG, plugins=plugins) as app:
                queue = chancy.Queue(
                    TASK,
                    concurrency=concurrency,
                    executor=chancy.Chancy.Executor.Async,
                    eager_polling=mode != "default",
                )
                await app.declare(queue, upsert=True)
                begin()
                async with chancy.Worker(app, **timing) as worker:
                    await worker.wait_for_shutdown()

        asyncio.run(work())


class ChancyProducer:
    def __init__(self, app: Any, task: Any) -> None:  # noqa: ANN401 - they have no types here
        self._app = app
        self._task = task

    async def one(self, number: int) -> None:
        await self._app.push(self._task.job.with_kwargs(number=number))

    async def many(self, numbers: Sequence[int]) -> None:
        jobs = [self._task.job.with_kwargs(number=number) for number in numbers]
        async for _ in self._app.push_many(jobs):
            pass
