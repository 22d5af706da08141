"""Awa. Python tasks run on its Rust worker."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.task_queues.task_queue import (
    POOL_SIZE,
    RECOVERING,
    TASK,
    Handler,
    Kind,
    Mode,
    Producer,
    TaskQueue,
)

CONCURRENCY = 100
CLAIMED = 512  # at most, per call
HEARTBEAT = {
    "heartbeat_interval_ms": 3000,
    "heartbeat_staleness_ms": 9000,  # its guide asks for at least three intervals
    "heartbeat_rescue_interval_ms": 1000,
}


@dataclass
class Noop:
    number: int


class Awa(TaskQueue):
    name = "awa"
    settings: ClassVar = {
        "batches": f"`max_workers={CONCURRENCY}`, `claim_batch_size={CLAIMED}`",
        "single": "`max_workers=1`",
        "default": "`max_workers=50`",
        "recovering": f"`max_workers={RECOVERING}`, heartbeats every 3 s, stale after 9 s",
    }
    unfinished = "FROM awa.jobs WHERE state NOT IN ('completed', 'cancelled', 'failed')"
    finished = None

    def install(self, dsn: str) -> None:
        import awa

        async def install() -> None:
            """The first worker of a new database switches it to the engine that bulk calls need."""
            async with awa.AsyncClient(dsn) as client:
                await client.migrate()
                client.task(Noop, queue=TASK)(noop)
                await client.start([{"name": TASK, "max_workers": 1}])
                await client.shutdown()

        asyncio.run(install())

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        import awa

        async with awa.AsyncClient(dsn, max_connections=POOL_SIZE) as client:
            yield AwaProducer(client)

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        import awa

        assert kind == "async"
        workers = {"batches": CONCURRENCY, "single": 1, "default": 50, "recovering": RECOVERING}[mode]

        async def work() -> None:
            stopping = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
            client = awa.AsyncClient(dsn)

            @client.task(Noop, queue=TASK)  # type: ignore[untyped-decorator] # it has no types here
            async def run(job: Any) -> None:  # noqa: ANN401 - it has no types here
                await handler.add_async(job.args.number)

            begin()
            chosen: dict[str, Any] = {"name": TASK, "max_workers": workers}
            if mode == "batches":
                chosen["claim_batch_size"] = CLAIMED
            await client.start([chosen], **(HEARTBEAT if mode == "recovering" else {}))
            await stopping.wait()
            await client.shutdown()

        asyncio.run(work())


async def noop(_job: object) -> None:
    """Only gives the worker a task while it is installed; it never runs."""


class AwaProducer:
    def __init__(self, client: Any) -> None:  # noqa: ANN401 - it has no types here
        self._client = client

    async def one(self, number: int) -> None:
        await self._client.insert(Noop(number), queue=TASK)

    async def many(self, numbers: Sequence[int]) -> None:
        await self._client.enqueue_many_copy([Noop(number) for number in numbers], queue=TASK)
