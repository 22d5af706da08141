"""A worker in the test's own process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from lonnymq import App, Worker

TIMEOUT_S = 20


def drain(app: App, **options: Any) -> list[BaseException | None]:
    """Run a worker until nothing is due. Returns what handlers raised, in the order they finished."""
    raised: list[BaseException | None] = []
    worker = Worker(app, **{"on_result": lambda _, error: raised.append(error)} | options)

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await worker.serve(until_empty=True)

    asyncio.run(main())
    return raised


@asynccontextmanager
async def serving(app: App, **options: Any) -> AsyncIterator[Worker]:
    worker = Worker(app, **options)
    task = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(task, TIMEOUT_S)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - the database, or a thread, changes it
            await asyncio.sleep(0.01)
