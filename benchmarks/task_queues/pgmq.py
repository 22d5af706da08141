"""pgmq through its own Python client. It has no worker: this one reads a batch, runs it and deletes it."""

import asyncio
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
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
    tenant_of,
)

BATCH_SIZES: dict[Mode, int] = {"batches": 500, "single": 1, "default": 10, "recovering": RECOVERING}
INVISIBLE_SECONDS = 30  # the default of its client
GROUP = "x-pgmq-group"
READERS = (
    10  # of a worker that reads groups: each waits for the tasks of its batch, which run one after the other
)
GROUPED_SIZE = 10


class Pgmq(TaskQueue):
    name = "pgmq"
    settings: ClassVar = {
        mode: f"`qty={size}`, `vt={INVISIBLE_SECONDS}`" for mode, size in BATCH_SIZES.items()
    } | {"recovering": f"`qty={RECOVERING}`, `vt={RECOVERY_SECONDS}`"}
    unfinished = f"FROM pgmq.q_{TASK}"
    finished = None
    has_groups = False

    def install(self, dsn: str) -> None:
        import psycopg

        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(files("pgmq").joinpath("sql", "pgmq.sql").read_bytes())
            conn.execute("SELECT pgmq.create(%s)", (TASK,))
            if self.has_groups:
                conn.execute("SELECT pgmq.create_fifo_index(%s)", (TASK,))

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        client = await connected(dsn)
        yield PgmqProducer(client, has_groups=self.has_groups)
        await client.close()

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        assert kind == "async"
        invisible = RECOVERY_SECONDS if mode == "recovering" else INVISIBLE_SECONDS

        async def work() -> None:
            stopping = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
            client = await connected(dsn)

            async def read_and_run() -> None:
                read = client.read_grouped_rr_with_poll if self.has_groups else client.read_with_poll
                size = min(GROUPED_SIZE, BATCH_SIZES[mode]) if self.has_groups else BATCH_SIZES[mode]
                while not stopping.is_set():
                    messages = await read(TASK, vt=invisible, qty=size, max_poll_seconds=1)
                    numbers = [message.message["number"] for message in messages]
                    runs = in_order(numbers, handler) if self.has_groups else map(handler.add_async, numbers)
                    await asyncio.gather(*runs)
                    if messages:
                        await client.delete_batch(TASK, [message.msg_id for message in messages])

            begin()
            await asyncio.gather(*(read_and_run() for _ in range(READERS if self.has_groups else 1)))
            await client.close()

        asyncio.run(work())


class GroupedPgmq(Pgmq):
    """Each tenant is a group: reads take from groups in turn, and from no group that is being processed."""

    name = "pgmq, grouped"
    has_groups = True


def in_order(numbers: Sequence[int], handler: Handler) -> list[Coroutine[Any, Any, None]]:
    """Run the tasks of each tenant one after the other, and tenants at the same time."""
    tenants: defaultdict[int, list[int]] = defaultdict(list)
    for number in numbers:
        tenants[tenant_of(number)].append(number)

    async def run(tenant: list[int]) -> None:
        for number in tenant:
            await handler.add_async(number)

    return [run(tenant) for tenant in tenants.values()]


async def connected(dsn: str) -> Any:  # noqa: ANN401 - it has no types here
    from pgmq.async_queue import PGMQueue

    client = PGMQueue(conn_string=dsn, init_extension=False, pool_size=POOL_SIZE)
    await client.init()
    return client


class PgmqProducer:
    def __init__(self, client: Any, *, has_groups: bool) -> None:  # noqa: ANN401 - it has no types here
        self._client = client
        self._has_groups = has_groups

    async def one(self, number: int) -> None:
        await self.many([number])

    async def many(self, numbers: Sequence[int]) -> None:
        headers = [{GROUP: str(tenant_of(number))} for number in numbers] if self._has_groups else None
        await self._client.send_batch(TASK, [{"number": number} for number in numbers], headers)
