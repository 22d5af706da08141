"""What a worker reports about itself, and what can be requested of it."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable

import psycopg
import pytest

from lonnymq import App, AsyncQueue, ListedWorker, Queue, Worker
from lonnymq.version import __version__
from lonnymq.worker import in_progress, registry
from lonnymq.worker.registry import Registry
from lonnymq.worker.unknown_tasks import UnknownTasks
from lonnymq.worker.worker_settings import WorkerSettings
from tests.worker.serving import TIMEOUT_S, serving, until


@pytest.fixture(autouse=True)
def frequent_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PERIOD_S", 0.05)


class Gate:
    """A task that runs until the gate is open."""

    def __init__(self, app: App) -> None:
        self.opened = asyncio.Event()
        self.running: list[int] = []
        self.done: list[int] = []

        @app.task(channel="gate")
        async def wait(n: int) -> None:
            self.running.append(n)
            await self.opened.wait()
            self.done.append(n)

        self.task = wait


def only(queue: Queue) -> ListedWorker:
    [found] = queue.workers()
    return found


def is_listed(queue: Queue, state: str, running: int = 0) -> Callable[[], bool]:
    return lambda: [(each.state, each.running) for each in queue.workers()] == [(state, running)]


def is_asleep(conn: psycopg.Connection) -> bool:
    """Whether a consumer waits to be notified."""
    [(found,)] = conn.execute("SELECT is_asleep FROM sleep ORDER BY id DESC LIMIT 1").fetchall()
    return bool(found)


def test_a_worker_is_listed_until_it_stops(queue: Queue, app: App) -> None:
    async def main() -> None:
        gate = Gate(app)
        app.consume(print)
        gate.task.enqueue(1)
        async with serving(app, name="w", concurrency=3):
            await until(is_listed(queue, "serving", 1))
            found = only(queue)
            assert (found.name, found.host, found.pid) == ("w", socket.gethostname(), os.getpid())
            assert (found.version, found.concurrency, found.is_alive) == (__version__, 3, True)
            assert (found.tasks, found.lanes, found.unknown_tasks) == (["wait", ""], None, [])
            assert queue.stats().workers == 1
            await until(lambda: only(queue).seen_at > found.seen_at)
            assert only(queue).started_at == found.started_at
            gate.opened.set()
            await until(is_listed(queue, "serving"))
        assert queue.workers() == []

    asyncio.run(main())


def test_a_worker_that_drains_is_listed_until_it_has_finished(
    queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "PERIOD_S", 600)  # it reports at once that it drains

    async def main() -> None:
        gate = Gate(app)
        gate.task.enqueue(1)
        async with serving(app, lanes=["default", "mail"]) as worker:
            await until(lambda: gate.running)
            worker.stop()
            await until(is_listed(queue, "draining", 1))
            assert only(queue).lanes == ["default", "mail"]
            gate.opened.set()
        assert queue.workers() == []

    asyncio.run(main())


def test_a_paused_worker_finishes_what_runs_and_leases_no_more(
    queue: Queue, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        gate = Gate(app)
        gate.task.enqueue(1)
        gate.task.enqueue(2)
        async with serving(app, name="w", concurrency=1, prefetch=1):
            await until(lambda: gate.running)
            assert [asked.name for asked in queue.pause_worker("w")] == ["w"]
            await until(is_listed(queue, "paused", 1))
            gate.opened.set()
            await until(is_listed(queue, "paused"))
            assert gate.done == [1]
            await until(lambda: queue.stats().leased == 0)
            gate.task.enqueue(3)
            seen_at = only(queue).seen_at
            await until(lambda: only(queue).seen_at > seen_at + 300)
            assert (gate.done, queue.stats().leased) == ([1], 0)
            queue.resume_worker("w")
            await until(lambda: sorted(gate.done) == [1, 2, 3])
            await until(is_listed(queue, "serving"))

    with caplog.at_level(logging.INFO, "lonnymq.worker"):
        asyncio.run(main())
    assert [text for text in caplog.messages if "as requested" in text] == [
        "w is now paused, as requested",
        "w is now serving, as requested",
    ]


def test_a_paused_worker_releases_what_it_has_not_started(
    queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_progress, "READY_MAX_S", 600)

    async def main() -> None:
        gate = Gate(app)

        @app.task()
        async def fast() -> None: ...

        async with serving(app, name="w", concurrency=1, prefetch=600):
            queue.enqueue_many(fast.message() for _ in range(50))  # so that it prefetches
            await until(lambda: len(queue.history()) == 50)
            queue.enqueue_many(gate.task.message(n) for n in range(3))
            await until(lambda: gate.running and queue.stats().leased == 3)
            queue.pause_worker("w")
            await until(lambda: queue.stats().leased == 1)
            gate.opened.set()
            await until(is_listed(queue, "paused"))
            assert gate.done == [0]
            queue.resume_worker("w")
            await until(lambda: len(gate.done) == 3)

    asyncio.run(main())


def test_pausing_ends_a_waiting_dequeue(queue: Queue, app: App, conn: psycopg.Connection) -> None:
    """An idle worker waits for messages. One that comes while it is paused must not be leased."""

    async def main() -> None:
        gate = Gate(app)
        async with serving(app, name="w"):
            await until(lambda: is_asleep(conn) and queue.workers())
            queue.pause_worker("w")
            await until(is_listed(queue, "paused"))
            created = gate.task.enqueue(1)
            seen_at = only(queue).seen_at
            await until(lambda: only(queue).seen_at > seen_at + 300)
            message = queue.get(created.id or 0)
            assert message is not None
            assert message.dequeued_at is None, "it was never leased"
            queue.resume_worker("w")
            await until(lambda: gate.running)
            gate.opened.set()

    asyncio.run(main())


def test_a_worker_can_be_drained_from_elsewhere(queue: Queue, app: App) -> None:
    async def main() -> None:
        gate = Gate(app)
        gate.task.enqueue(1)
        worker = asyncio.create_task(Worker(app, name="w").serve())
        await until(lambda: gate.running)
        await until(lambda: queue.drain_worker("w"))
        await until(is_listed(queue, "draining", 1))
        gate.task.enqueue(2)
        gate.opened.set()
        await asyncio.wait_for(worker, TIMEOUT_S)
        assert (gate.running, queue.workers()) == ([1], [])

    asyncio.run(main())


def test_no_report_follows_when_a_worker_has_left(dsn: str, queue: Queue, app: App) -> None:
    async def main() -> None:
        settings = WorkerSettings(app, 1, None, 0, 0, None, None, "w")
        async with AsyncQueue(dsn) as own:
            listed = Registry(settings, own, UnknownTasks([], None), lambda: ("serving", 0), lambda _: None)
            await listed._report()
            assert only(queue).name == "w"
            await listed.leave()
            await listed._report()  # it waited for its turn meanwhile
        assert queue.workers() == []

    asyncio.run(main())


def test_a_worker_that_may_not_report_works_all_the_same(
    queue: Queue, app: App, conn: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    conn.execute("DROP FUNCTION worker_report")

    async def main() -> None:
        gate = Gate(app)
        gate.opened.set()
        async with serving(app):
            await until(lambda: "`lonnymq workers` does not list this worker" in caplog.text)
            gate.task.enqueue(1)
            await until(lambda: gate.done)

    asyncio.run(main())
    assert caplog.text.count("does not list this worker") == 1
    assert queue.workers() == []
