"""Runs a taskiq worker in the process of the test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from taskiq import AsyncBroker, AsyncTaskiqTask, TaskiqResult
from taskiq.receiver import Receiver

from lonnymq import AsyncQueue

PATIENCE_S = 30


@asynccontextmanager
async def worker(broker: AsyncBroker, **options: Any) -> AsyncIterator[None]:
    """As `taskiq worker` does it: listen, finish what runs, and shut the broker down."""
    finish = asyncio.Event()
    broker.is_worker_process = True
    with ThreadPoolExecutor(2) as executor:
        receiver = Receiver(broker, executor, **{"max_async_tasks": 10, "wait_tasks_timeout": 2, **options})
        serving = asyncio.create_task(receiver.listen(finish))
        try:
            yield
        finally:
            finish.set()
            await serving
            await broker.shutdown()


async def until(condition: Callable[[], Any]) -> None:
    """Wait until it is true; it may be a coroutine function."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = condition()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.01)


async def is_empty(queue: AsyncQueue) -> bool:
    stats = await queue.stats()
    return not stats.waiting and not stats.leased


async def result_of(task: AsyncTaskiqTask[Any]) -> TaskiqResult[Any]:
    return await task.wait_result(check_interval=0.02, timeout=PATIENCE_S)
