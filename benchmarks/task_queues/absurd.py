"""Absurd. Its SDK spawns one task per call. A worker claims as many as it may run, and waits for them."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
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

CONCURRENCY = 100
CLAIM_SECONDS = 120  # its default
SPAWN = f"""
SELECT COUNT(*) FROM unnest(%s) n
CROSS JOIN LATERAL absurd.spawn_task('{TASK}', '{TASK}', jsonb_build_object('number', n))
"""


class Absurd(TaskQueue):
    name = "absurd"
    settings: ClassVar = {
        "batches": f"`concurrency={CONCURRENCY}`",
        "single": "`concurrency=1`",
        "default": "`concurrency=1`",
        "recovering": f"`concurrency={RECOVERING}`, `claim_timeout={RECOVERY_SECONDS}`",
    }
    unfinished = f"FROM absurd.t_{TASK} WHERE state <> 'completed'"
    finished = f"FROM absurd.t_{TASK} WHERE state = 'completed'"
    share = 0.2

    def install(self, dsn: str) -> None:
        import psycopg
        from absurdctl import BUNDLED_SCHEMA_SQL  # what `absurdctl init` installs; that needs psql

        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(BUNDLED_SCHEMA_SQL)
            conn.execute("SELECT absurd.create_queue(%s)", (TASK,))

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        """A client has one connection, so a pool is several clients."""
        import psycopg
        from absurd_sdk import AsyncAbsurd

        async with AsyncExitStack() as stack:
            clients: asyncio.Queue[Any] = asyncio.Queue()
            for _ in range(POOL_SIZE):
                client = AsyncAbsurd(dsn, queue_name=TASK)
                await client.list_queues()  # connect now
                stack.push_async_callback(client.close)
                clients.put_nowait(client)
            conn = await stack.enter_async_context(
                await psycopg.AsyncConnection.connect(dsn, autocommit=True)
            )
            yield AbsurdProducer(clients, conn)

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        from absurd_sdk import AsyncAbsurd

        assert kind == "async"
        concurrency = {"batches": CONCURRENCY, "recovering": RECOVERING}.get(mode, 1)

        async def work() -> None:
            app = AsyncAbsurd(dsn, queue_name=TASK)

            @app.register_task(TASK)  # type: ignore[untyped-decorator] # it has no types here
            async def run(params: dict[str, int], _ctx: object) -> None:
                await handler.add_async(params["number"])

            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.stop_worker)
            begin()
            claim_timeout = RECOVERY_SECONDS if mode == "recovering" else CLAIM_SECONDS
            await app.start_worker(concurrency=concurrency, claim_timeout=claim_timeout)
            await app.close()

        asyncio.run(work())


class AbsurdProducer:
    def __init__(self, clients: "asyncio.Queue[Any]", conn: Any) -> None:  # noqa: ANN401 - psycopg, or not there
        self._clients = clients
        self._conn = conn

    async def one(self, number: int) -> None:
        client = await self._clients.get()
        try:
            await client.spawn(TASK, {"number": number}, queue=TASK)
        finally:
            self._clients.put_nowait(client)

    async def many(self, numbers: Sequence[int]) -> None:
        """Its SDK has no such call; this calls its SQL function many times in one statement."""
        await self._conn.execute(SPAWN, (list(numbers),))
