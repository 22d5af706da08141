"""Stopping a worker: what handlers and the log are told, and what becomes of the messages."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from lonnymq import App, AsyncJob, Discard, Job, JobStopped, Queue, Retry, StopReason, Worker
from lonnymq.client.async_queue import AsyncQueue
from lonnymq.commands import Delivery
from lonnymq.worker import drain as worker_drain
from lonnymq.worker.drain import Drain
from lonnymq.worker.leased import LeasedMessage
from tests.worker.serving import TIMEOUT_S, drain, serving, until


def drain_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Without the worker's name."""
    lines = [text.partition(" is ") for text in caplog.messages]
    return [what for _, _, what in lines if what.startswith(("draining: ", "stopping"))]


def running(worker: Worker) -> int:
    """How many handlers run. The database knows of a lease before the worker does."""
    return 0 if worker._session is None else int(worker._session.state()["running"])


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lonnymq.worker")


def is_saved(queue: Queue) -> bool:
    return any((message := queue.get(each.id)) and message.state for each in queue.messages(status="leased"))


@pytest.mark.parametrize("is_async", [False, True])
def test_handlers_know_at_once_that_the_worker_drains(
    queue: Queue, app: App, caplog: pytest.LogCaptureFixture, *, is_async: bool
) -> None:
    """Though they have time to finish. They may stop early, which uses up no attempt."""
    seen: list[tuple[StopReason | None, bool]] = []

    @app.task(max_attempts=1)
    def export() -> None:
        job = Job.current()
        assert (job.should_stop, job.stop_reason, job.is_interrupted) == (False, None, False)
        job.save("page 1")
        while not job.should_stop:
            time.sleep(0.01)
        seen.append((job.stop_reason, job.is_interrupted))
        raise JobStopped

    @app.task(max_attempts=1)
    async def export_async() -> None:
        job = AsyncJob.current()
        await job.save("page 1")
        while not job.should_stop:  # noqa: ASYNC110 - the worker sets it
            await asyncio.sleep(0.01)
        seen.append((job.stop_reason, job.is_interrupted))
        raise JobStopped

    (export_async if is_async else export).enqueue()

    async def main() -> None:
        async with serving(app, shutdown_timeout=TIMEOUT_S):
            await until(lambda: is_saved(queue))
            began = time.monotonic()
        assert time.monotonic() - began < TIMEOUT_S / 2

    asyncio.run(main())
    assert seen == [(StopReason.SHUTDOWN, False)]
    assert drain_lines(caplog) == [f"draining: 1 running, waiting up to {TIMEOUT_S} s"]
    assert [(each.status, each.attempts, each.error) for each in queue.messages()] == [("due", 0, None)]


def test_a_handler_may_say_when_to_try_again(queue: Queue, app: App) -> None:
    @app.task(max_attempts=1)
    async def export() -> None:
        while not AsyncJob.current().should_stop:  # noqa: ASYNC110 - the worker sets it
            await asyncio.sleep(0.01)
        raise Retry(after=3600, counts=False)

    export.enqueue()

    async def main() -> None:
        async with serving(app) as worker:
            await until(lambda: running(worker))

    asyncio.run(main())
    assert [(each.status, each.attempts) for each in queue.messages()] == [("scheduled", 0)]


def test_job_stopped_counts_as_a_failure_if_nobody_asked(queue: Queue, app: App) -> None:
    """Otherwise the message would be served for ever."""

    @app.task(max_attempts=1)
    def stops() -> None:
        raise JobStopped

    stops.enqueue()
    drain(app)
    assert [each.attempts for each in queue.dead.list()] == [1]


def test_what_still_runs_is_logged(
    queue: Queue, app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the time is over. Then the handlers are interrupted."""
    monkeypatch.setattr(worker_drain, "PROGRESS_S", 0.2)
    interrupted: list[tuple[StopReason | None, bool]] = []

    @app.task()
    async def long() -> None:
        try:
            await asyncio.sleep(2 * TIMEOUT_S)
        finally:
            interrupted.append((AsyncJob.current().stop_reason, AsyncJob.current().is_interrupted))

    created = [long.enqueue().id for _ in range(2)]

    async def main() -> None:
        async with serving(app, shutdown_timeout=0.7) as worker:
            await until(lambda: running(worker) == 2)

    asyncio.run(main())
    first, *progress, last = drain_lines(caplog)
    assert first == "draining: 2 running, waiting up to 0.7 s"
    names = [f"long (message {number})" for number in created]
    assert progress
    for line in progress:
        assert line.startswith("draining: 2 still running after ")
        assert all(name in line for name in names)
    assert last == "stopping: 2 handlers did not finish in 0.7 s; releasing the messages"
    assert interrupted == [(StopReason.SHUTDOWN, True)] * 2
    assert [(each.status, each.attempts) for each in queue.messages()] == [("due", 0)] * 2


async def goes_on() -> None:
    await asyncio.sleep(2 * TIMEOUT_S)


async def raises_another_error() -> None:
    try:
        await asyncio.sleep(2 * TIMEOUT_S)
    except asyncio.CancelledError:
        raise ConnectionError("cancelled") from None


@pytest.mark.parametrize("handler", [goes_on, raises_another_error])
def test_a_second_stop_releases_what_runs(
    queue: Queue,
    app: App,
    caplog: pytest.LogCaptureFixture,
    handler: Callable[[], Awaitable[None]],
) -> None:
    """It uses up no attempt, whatever the handlers raise when they are interrupted."""
    task = app.task(max_attempts=1)(handler)
    queue.enqueue_many(task.message() for _ in range(3))

    async def main() -> None:
        async with serving(app, shutdown_timeout=10 * TIMEOUT_S) as worker:
            await until(lambda: running(worker) == 3)
            worker.stop()
            await asyncio.sleep(0)
            worker.stop()

    asyncio.run(main())
    assert drain_lines(caplog) == [
        "draining: 3 running, waiting up to 200 s",
        "stopping now, and releases 3 messages",
    ]
    assert [(each.status, each.attempts, each.error) for each in queue.messages()] == [("due", 0, None)] * 3


def waited_for(queue: Queue, task: Any, count: int) -> dict[LeasedMessage, asyncio.Task[None]]:
    """Leased messages with handlers that run until they are interrupted."""
    queue.enqueue_many(task.message() for _ in range(count))
    found = {
        LeasedMessage(each, task, 30, 0): asyncio.create_task(goes_on()) for each in queue.dequeue(count)
    }
    for leased, handler in found.items():
        leased.interrupt_handler = handler.cancel
    return found


def test_a_second_stop_ends_the_waiting(queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_drain, "PROGRESS_S", 10 * TIMEOUT_S)

    async def main() -> None:
        handlers = waited_for(queue, app.task()(goes_on), 1)
        ending = Drain("the worker", handlers, 10 * TIMEOUT_S)
        waiting = asyncio.create_task(ending.wait())
        await asyncio.sleep(0)
        assert [(each.stop_reason, each.is_interrupted) for each in handlers] == [
            (StopReason.SHUTDOWN, False)
        ]
        ending.force()
        await asyncio.wait_for(waiting, TIMEOUT_S)
        assert all(handler.cancelled() for handler in handlers.values())

    asyncio.run(main())


@pytest.mark.parametrize(("count", "more"), [(worker_drain.NAMED_MAX, None), (13, "and 3 more")])
def test_the_time_counts_from_the_first_stop(
    queue: Queue,
    app: App,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    more: str | None,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(worker_drain, "monotonic", lambda: now[0])
    monkeypatch.setattr(worker_drain, "PROGRESS_S", 0.01)

    async def main() -> None:
        ending = Drain("the worker", waited_for(queue, app.task()(goes_on), count), TIMEOUT_S)
        ending.begin()
        now[0] += TIMEOUT_S - 1  # a dequeue was under way meanwhile
        waiting = asyncio.create_task(ending.wait())
        await until(lambda: "still running" in caplog.text)
        now[0] += 1
        await asyncio.wait_for(waiting, TIMEOUT_S)

    asyncio.run(main())
    line = next(line for line in drain_lines(caplog) if "still running" in line)
    assert line.startswith(f"draining: {count} still running after 19 s: goes_on (message ")
    assert line.count("goes_on") == worker_drain.NAMED_MAX
    assert (line.rpartition(", ")[2] if "more" in line else None) == more


def test_an_interrupted_handler_may_still_discard_its_message(queue: Queue, app: App) -> None:
    @app.task()
    async def gives_up() -> None:
        try:
            await asyncio.sleep(2 * TIMEOUT_S)
        except asyncio.CancelledError:
            raise Discard("too late") from None

    gives_up.enqueue()

    async def main() -> None:
        async with serving(app, shutdown_timeout=0) as worker:
            await until(lambda: running(worker))

    asyncio.run(main())
    assert [(each.outcome, each.error) for each in queue.history()] == [("cancelled", "too late")]


def test_leases_are_extended_while_a_worker_drains(conn: psycopg.Connection, queue: Queue, app: App) -> None:
    is_over = threading.Event()

    @app.task(max_attempts=1)
    def waits() -> None:
        assert is_over.wait(TIMEOUT_S)

    waits.enqueue()

    async def main() -> None:
        worker = Worker(app, lease=0.5)
        task = asyncio.create_task(worker.serve())
        await until(lambda: running(worker))
        worker.stop()
        [(before,)] = conn.execute("SELECT end_at FROM lonnymq.lease").fetchall()
        await until(
            lambda: conn.execute("SELECT FROM lonnymq.lease WHERE end_at > %s", (before + 1500,)).fetchall()
        )
        is_over.set()
        await asyncio.wait_for(task, TIMEOUT_S)

    asyncio.run(main())
    assert [(each.outcome, each.attempts) for each in queue.history()] == [("completed", 1)]


@pytest.mark.parametrize("reason", [StopReason.TIMEOUT, StopReason.CANCELLED, StopReason.LEASE_LOST])
def test_why_a_handler_is_interrupted(
    conn: psycopg.Connection, queue: Queue, app: App, reason: StopReason
) -> None:
    seen: list[tuple[bool, StopReason | None, bool]] = []

    @app.task(timeout=0.1 if reason is StopReason.TIMEOUT else None)
    async def waits() -> None:
        job = AsyncJob.current()
        if reason is StopReason.CANCELLED:
            queue.cancel(job.id)
        elif reason is StopReason.LEASE_LOST:
            conn.execute("UPDATE lonnymq.lease SET token = gen_random_uuid()")
        try:
            await asyncio.sleep(2 * TIMEOUT_S)
        finally:
            seen.append((job.should_stop, job.stop_reason, job.is_interrupted))

    waits.enqueue()

    async def main() -> None:
        async with serving(app, lease=1):
            await until(lambda: seen)

    asyncio.run(main())
    assert seen == [(True, reason, True)]


def test_a_worker_that_is_cancelled_twice_during_a_dequeue_releases_what_that_returns(
    queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()
    dequeue_until = AsyncQueue.dequeue_until

    async def answers_late(*args: Any, **options: Any) -> list[Delivery]:
        deliveries = await dequeue_until(*args, **options)
        answered.set()
        await asyncio.sleep(0.1)
        return deliveries

    monkeypatch.setattr(AsyncQueue, "dequeue_until", answers_late)
    queue.enqueue("work")
    app.consume(print)

    async def main() -> None:
        task = asyncio.create_task(Worker(app).serve())
        await answered.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert [(message.status, message.attempts) for message in queue.messages()] == [("due", 0)]


@pytest.mark.parametrize("is_stopped_first", [False, True])
def test_a_worker_that_is_cancelled_repeatedly_releases_what_it_has(
    queue: Queue, app: App, is_stopped_first: bool
) -> None:
    @app.task()
    async def goes_on_for_a_moment() -> None:
        try:
            await asyncio.sleep(TIMEOUT_S)
        finally:
            await asyncio.sleep(0.1)

    goes_on_for_a_moment.enqueue()

    async def main() -> None:
        worker = Worker(app)
        task = asyncio.create_task(worker.serve())
        await until(lambda: running(worker) == 1)
        if is_stopped_first:
            worker.stop()
            await asyncio.sleep(0)
        while not task.done():
            task.cancel()
            await asyncio.sleep(0.01)
        assert task.cancelled()

    asyncio.run(main())
    assert [(message.status, message.attempts) for message in queue.messages()] == [("due", 0)]
    assert queue.workers() == []
