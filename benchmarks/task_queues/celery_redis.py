"""Celery on Redis, with late acknowledgement: a task is not lost when its worker dies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from benchmarks.task_queues.task_queue import (
    RECOVERING,
    RECOVERY_SECONDS,
    TASK,
    Handler,
    Kind,
    Mode,
    Producer,
    TaskQueue,
)

PROCESSES = 2
PREFETCH = 128  # its guide suggests 50, 150 and the like for many short tasks
LATE = {"task_acks_late": True, "task_reject_on_worker_lost": True, "task_ignore_result": True}


class CeleryRedis(TaskQueue):
    name = "celery"
    settings: ClassVar = {
        "batches": f"`acks_late`, {PROCESSES} processes, `worker_prefetch_multiplier={PREFETCH}`",
        "single": "`acks_late`, 1 process, `worker_prefetch_multiplier=1`",
        "default": f"`acks_late`, {PROCESSES} processes",
        "recovering": f"`acks_late`, {RECOVERING} processes, `visibility_timeout={RECOVERY_SECONDS}`",
    }
    unfinished = ""
    finished = None
    store = "redis"
    share = 0.2

    def install(self, dsn: str) -> None:
        """Redis needs nothing."""

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(main)

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        app = app_of(dsn)
        yield CeleryProducer(app.task(name=TASK)(noop))
        app.close()

    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        import celery.apps.worker
        import celery.bin.celery
        import celery.concurrency.prefork
        import celery.worker.consumer  # noqa: F401 - before the measurement begins, as the other libraries

        assert kind == "async"  # it runs plain functions in processes, whatever the kind
        app = app_of(dsn, seconds=RECOVERY_SECONDS if mode == "recovering" else None)
        app.conf.worker_prefetch_multiplier = {"batches": PREFETCH, "single": 1, "recovering": 1}.get(mode, 4)
        processes = {"single": 1, "recovering": RECOVERING}.get(mode, PROCESSES)

        @app.task(name=TASK)  # type: ignore[untyped-decorator] # it has no types
        def run(number: int) -> None:
            handler.add(number)

        begin()
        options = ["--loglevel=ERROR", f"--concurrency={processes}", "--without-gossip", "--without-mingle"]
        app.worker_main(["worker", *options])


def noop(number: int) -> None:
    """Only gives the producer a task to send; it never runs."""


def app_of(dsn: str, seconds: float | None = None) -> Any:  # noqa: ANN401 - it has no types
    from celery import Celery

    app = Celery(broker=dsn, set_as_current=False)
    app.conf.update(LATE)
    if seconds is not None:
        app.conf.broker_transport_options = {"visibility_timeout": seconds}
    return app


class CeleryProducer:
    def __init__(self, task: Any) -> None:  # noqa: ANN401 - it has no types
        self._task = task

    async def one(self, number: int) -> None:
        await asyncio.to_thread(self._task.apply_async, (number,))

    async def many(self, numbers: Sequence[int]) -> None:
        """It has no such call; these are many calls on one connection."""

        def send() -> None:
            with self._task.app.producer_or_acquire() as producer:
                for number in numbers:
                    self._task.apply_async((number,), producer=producer)

        await asyncio.to_thread(send)
