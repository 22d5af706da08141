"""RQ. A worker runs one job at a time, each in a process that it forks for it; a pool has several workers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from benchmarks.task_queues.task_queue import RECOVERING, TASK, Handler, Kind, Mode, Producer, TaskQueue

WORKERS = 2
state: dict[str, Handler] = {}


def noop(number: int) -> None:
    """The task, which a worker imports by its name."""
    state["handler"].add(number)


class Rq(TaskQueue):
    name = "rq"
    settings: ClassVar = {
        "batches": f"a pool of {WORKERS} workers",
        "single": "one worker",
        "default": "one worker",
        "recovering": f"a pool of {RECOVERING} workers, `Retry(max=3)`, `job_monitoring_interval=1`, "
        "`maintenance_interval=1`",
    }
    unfinished = ""
    finished = None
    store = "redis"
    share = 0.05

    def install(self, dsn: str) -> None:
        """Redis needs nothing."""

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        from redis import Redis
        from rq import Queue

        with Redis.from_url(dsn) as connection:
            yield RqProducer(Queue(TASK, connection=connection))

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        from redis import Redis
        from rq import Worker
        from rq.worker_pool import WorkerPool

        assert kind == "async"  # it runs plain functions in processes, whatever the kind
        logging.disable(logging.WARNING)
        state["handler"] = handler
        connection = Redis.from_url(dsn)
        begin()
        if mode in {"single", "default"}:
            Worker([TASK], connection=connection).work(logging_level="ERROR")
            return

        class QuickWorker(Worker):  # type: ignore[misc] # it has no types here
            def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passes them on
                super().__init__(*args, job_monitoring_interval=1, maintenance_interval=1, **kwargs)

        recovers = mode == "recovering"
        pool = WorkerPool(
            [TASK],
            connection,
            num_workers=RECOVERING if recovers else WORKERS,
            worker_class=QuickWorker if recovers else Worker,
        )
        pool.start(logging_level="ERROR")


class RqProducer:
    def __init__(self, queue: Any) -> None:  # noqa: ANN401 - it has no types here
        from rq import Retry

        self._queue = queue
        self._options = {"result_ttl": 0, "retry": Retry(max=3)}

    async def one(self, number: int) -> None:
        await asyncio.to_thread(self._queue.enqueue, noop, number, **self._options)

    async def many(self, numbers: Sequence[int]) -> None:
        calls = [self._queue.prepare_data(noop, (number,), **self._options) for number in numbers]
        await asyncio.to_thread(self._queue.enqueue_many, calls)
