"""Leases are extended from a thread of their own, which also notices that the event loop is blocked."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from uuid import UUID

import asyncpg
import psycopg
import pytest

from lonnymq import App, AsyncQueue, Delivery, Queue, Worker
from lonnymq.worker import loop_watch
from lonnymq.worker.handler_policy import HandlerPolicy
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.leases import Leases
from lonnymq.worker.loop_watch import LoopWatch
from lonnymq.worker.outages import Outages
from lonnymq.worker.stop_reason import StopReason
from lonnymq.worker.task import RawHandler
from tests.database import AnyServer
from tests.worker.serving import TIMEOUT_S, serving, until
from tests.worker.test_races import no_connections

LEASE_S = 1.0
NEIGHBOURS = 7


def block_until(condition: Callable[[], object]) -> None:
    """Block the thread that calls it."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lease_ends(conn: psycopg.Connection) -> list[int]:
    return [end_at for (end_at,) in conn.execute("SELECT end_at FROM lonnymq.lease ORDER BY 1")]


def now_ms(conn: psycopg.Connection) -> int:
    [(now,)] = conn.execute("SELECT lonnymq.clock_ms()").fetchall()
    return int(now)


@pytest.mark.parametrize("place", ["in the loop", "in threads"])
def test_a_handler_that_blocks_the_loop_does_not_cost_its_neighbours_their_leases(
    conn: psycopg.Connection, queue: Queue, app: App, place: str
) -> None:
    """It blocks for three leases. Another worker would get what is not extended."""
    began: list[int] = []
    is_over = threading.Event()
    other = App(queue)

    @app.task(max_attempts=1)
    async def blocks() -> None:
        block_until(lambda: len(began) == NEIGHBOURS or place == "in the loop")
        until_ms = now_ms(conn) + 3 * LEASE_S * 1000
        block_until(lambda: now_ms(conn) > until_ms)
        assert min(lease_ends(conn)) > until_ms
        is_over.set()

    @app.task(max_attempts=1)
    async def waits_in_loop(number: int) -> None:
        began.append(number)
        while not is_over.is_set():  # noqa: ASYNC110 - a handler sets it while it blocks the loop
            await asyncio.sleep(0.01)

    @app.task(max_attempts=1)
    def waits_in_thread(number: int) -> None:
        began.append(number)
        assert is_over.wait(TIMEOUT_S)

    waits = waits_in_loop if place == "in the loop" else waits_in_thread
    for task in (waits_in_loop, waits_in_thread, blocks):
        other.task(max_attempts=1, name=task.name)(task.function)
    queue.enqueue_many([*(waits.message(number) for number in range(NEIGHBOURS)), blocks.message()])

    async def main() -> None:
        async with serving(app, lease=LEASE_S, concurrency=NEIGHBOURS + 1):
            await until(lambda: len(queue.history()) == NEIGHBOURS + 1)

    thief = threading.Thread(target=lambda: asyncio.run(serve_until(other, is_over)))
    thief.start()
    asyncio.run(main())
    thief.join()
    assert {(each.outcome, each.attempts) for each in queue.history()} == {("completed", 1)}
    assert len(began) == NEIGHBOURS


async def serve_until(app: App, is_over: threading.Event) -> None:
    """Serve, but start nothing before the other worker has leased what there is."""
    queue = app.queue
    assert isinstance(queue, Queue)
    await until(lambda: queue.stats().leased == NEIGHBOURS + 1)
    async with serving(app, lease=LEASE_S):
        await until(is_over.is_set)


def test_what_blocks_the_loop_is_logged_while_it_does(
    queue: Queue, app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the name of the task, its message and its stack; once, however often it blocks."""
    monkeypatch.setattr(loop_watch, "BLOCKED_S", 0.2)
    seen: list[str] = []

    def reports() -> list[str]:
        return [text for text in caplog.messages if "has been blocked for" in text]

    @app.task()
    async def blocks() -> None:
        block_until(reports)
        seen.extend(reports())
        await asyncio.sleep(0)
        time.sleep(1)  # noqa: ASYNC251 - long enough for another report, which the first one suppresses

    created = blocks.enqueue()

    async def main() -> None:
        async with serving(app, lease=LEASE_S):
            await until(queue.history)

    asyncio.run(main())
    [report] = seen
    [record] = [each for each in caplog.records if each.getMessage() == report]
    assert (getattr(record, "task", None), getattr(record, "message_id", None)) == ("blocks", created.id)
    assert f"by blocks (message {created.id})" in report
    assert "in block_until\n    time.sleep(0.02)" in report
    assert "in blocks\n    block_until(reports)" in report
    assert "asyncio/" not in report
    assert "lonnymq/worker/" not in report
    assert "leases are not extended" not in report
    assert reports() == seen
    assert any(text.startswith("the event loop runs again: it was blocked for ") for text in caplog.messages)


def test_a_block_by_another_asyncio_task_is_logged_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        watch = LoopWatch(asyncio.get_running_loop(), {}, "lonnymq")

        def check_often() -> None:
            while not caplog.messages:
                watch.check(0)
                time.sleep(0.02)

        thread = threading.Thread(target=check_often)

        async def helper() -> None:
            thread.start()
            thread.join()

        await asyncio.create_task(helper(), name="the helper")

    asyncio.run(main())
    assert "by the asyncio task 'the helper'" in caplog.text


def test_a_process_that_stood_still_is_not_a_blocked_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Its threads stood still together, so the loop could not answer."""

    async def main() -> None:
        watch = LoopWatch(asyncio.get_running_loop(), {}, "lonnymq")
        watch.check(0)
        time.sleep(1.1 * loop_watch.BLOCKED_S)  # noqa: ASYNC251 - to block it
        watch.check(1.1 * loop_watch.BLOCKED_S)

    asyncio.run(main())
    [text] = caplog.messages
    assert text.startswith("this process stood still for 1.1 s")


@pytest.mark.slow
def test_leases_are_extended_after_an_outage(
    server: AnyServer, dsn: str, conn: psycopg.Connection, queue: Queue, app: App
) -> None:
    """All connections are lost, that of the lease thread too."""
    is_over = threading.Event()

    @app.task(max_attempts=1)
    def waits() -> None:
        assert is_over.wait(TIMEOUT_S)

    waits.enqueue()
    conn.close()

    async def main() -> None:
        async with serving(app, lease=3):
            await until(lambda: queue.stats().leased)
            await until(has_lease_connection)
            with no_connections(server, dsn):
                await asyncio.sleep(0.2)
            with psycopg.connect(dsn, autocommit=True) as admin:
                later = now_ms(admin) + 6_000
                await until(lambda: min(lease_ends(admin)) > later)
            is_over.set()
            await until(queue.history)

    def has_lease_connection() -> bool:
        with psycopg.connect(dsn) as admin:
            query = "SELECT query FROM pg_stat_activity WHERE datname = current_database()"
            return any("message_extend_many" in statement for (statement,) in admin.execute(query))

    asyncio.run(main())
    assert [(each.outcome, each.attempts) for each in queue.history()] == [("completed", 1)]


def lease_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "lonnymq leases"]


def test_the_thread_ends_with_the_worker_and_sleeps_while_that_is_idle(
    queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[float] = []
    monkeypatch.setattr(LoopWatch, "check", lambda _self, late_s: checks.append(late_s))

    @app.task()
    async def count() -> None: ...

    async def main() -> None:
        async with serving(app, lease=0.1) as worker:
            await until(lambda: worker._session is not None and lease_threads())
            count.enqueue()
            await until(queue.history)
            await until(
                lambda: worker._session is not None and worker._session._messages._leases._thread._is_asleep
            )
            before = len(checks)
            await asyncio.sleep(0.3)
            assert len(checks) == before, "it is awake though there are no messages"
            count.enqueue()
            await until(lambda: len(queue.history()) == 2)
            await until(lambda: len(checks) > before)

    asyncio.run(main())
    block_until(lambda: lease_threads() == [])


def test_a_message_that_is_finished_is_not_interrupted(dsn: str) -> None:
    """The lease thread learns that a lease is lost when the message was completed a moment ago."""

    async def main() -> None:
        interrupted: list[bool] = []
        async with AsyncQueue(dsn) as queue:
            message = Delivery(1, "acme", b"", None, None, 1, UUID(int=7), 0)
            leased = LeasedMessage(message, RawHandler(print, HandlerPolicy()), 30, 0)
            leased.interrupt_handler = lambda: interrupted.append(True)
            messages = {leased}
            leases = Leases(queue, Outages(), messages, {}, 30)
            messages.clear()
            leases.interrupt(leased, StopReason.LEASE_LOST)
            assert interrupted == []
            messages.add(leased)
            leases.interrupt(leased, StopReason.LEASE_LOST)
            assert interrupted == [True]

    asyncio.run(main())


@pytest.mark.parametrize("has_address", [False, True])
def test_a_pool_whose_address_is_not_known(
    dsn: str,
    conn: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_address: bool,
) -> None:
    """Leases are then extended in the loop, unless `listen` gives the address. The log says so."""
    monkeypatch.setattr(loop_watch, "BLOCKED_S", 0.2)
    ran: list[str] = []

    async def main() -> None:
        async with asyncpg.create_pool(dsn, min_size=1, max_size=5) as pool:
            queue = AsyncQueue(pool, listen=dsn if has_address else True)
            app = App(queue)

            @app.task(max_attempts=1)
            async def waits() -> None:
                until_ms = now_ms(conn) + 2 * LEASE_S * 1000
                while now_ms(conn) < until_ms:  # noqa: ASYNC110 - the database's clock
                    await asyncio.sleep(0.05)
                block_until(lambda: "has been blocked for" in caplog.text)
                ran.append("done")

            await waits.enqueue_async()
            await Worker(app, lease=LEASE_S).serve(until_empty=True)
            assert (await queue.stats()).dead == 0

    asyncio.run(main())
    assert ran == ["done"]
    assert ("leases are not extended" in caplog.text) is not has_address


def test_a_failure_of_the_thread_stops_the_worker(
    queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Leases that nobody extends would be lost one after the other."""

    def fail(_self: LoopWatch, late_s: float) -> None:
        raise ZeroDivisionError(late_s)

    monkeypatch.setattr(LoopWatch, "check", fail)
    is_over = threading.Event()

    @app.task()
    def waits() -> None:
        is_over.wait(TIMEOUT_S)

    waits.enqueue()

    async def main() -> None:
        with caplog.at_level(logging.INFO), pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(Worker(app, lease=1, shutdown_timeout=0).serve(), TIMEOUT_S)

    try:
        asyncio.run(main())
    finally:
        is_over.set()
    assert queue.stats().leased == 1, "others get the message when its lease ends"
