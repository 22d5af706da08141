"""A worker under attack: bad values, failures at the worst moment, and handlers that cannot be stopped."""

import asyncio
import json
import logging
import random
import shutil
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lonnymq import App, AsyncJob, Delivery, Discard, Job, Queue, Retry, Worker
from lonnymq.errors import InvalidArgument, InvalidLease, ReadOnlyDatabase
from lonnymq.worker.exceptions import HandlersStuck
from lonnymq.worker.execute import LOST, RELEASE, HandlerOutcome, run
from lonnymq.worker.handler_policy import HandlerPolicy
from lonnymq.worker.inline import InlineJobContext
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.stop_reason import StopReason
from lonnymq.worker.task import RawHandler
from lonnymq.worker.threads import Threads
from tests.database import AnyServer
from tests.worker.serving import TIMEOUT_S, drain, serving, until


def test_error_texts_that_the_database_cannot_store(
    queue: Queue, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither such a message nor the others of its batch stay leased."""
    caplog.set_level(logging.CRITICAL, "lonnymq.worker.job")  # pytest-xdist cannot send such errors
    texts = ["a\0b", "half \ud83d of it", "x" * 1_000_000]

    @app.task(max_attempts=1)
    async def fails(n: int) -> None:
        raise ValueError(texts[n])

    @app.task(max_attempts=1)
    async def asks(n: int) -> None:
        raise Retry(texts[n])

    @app.task()
    async def drops(n: int) -> None:
        raise Discard(texts[n])

    @app.task(max_attempts=1)
    async def fails_as_usual() -> None:
        raise ValueError("as usual")

    for n in range(len(texts)):
        for task in (fails, asks, drops):
            task.enqueue(n)
        fails_as_usual.enqueue()
    assert len(drain(app, concurrency=20)) == 12
    assert queue.stats().leased == 0
    dead = [each.error or "" for each in queue.dead.list()]
    assert len(dead) == 9
    assert sum("as usual" in error for error in dead) == 3
    assert sum("a\\0b" in error for error in dead) == 2
    assert sum("half \\ud83d of it" in error for error in dead) == 2
    gone = [each.error or "" for each in queue.history() if each.outcome == "cancelled"]
    assert sorted(error[:10] for error in gone) == ["a\\0b", "half \\ud83", "x" * 10]


def test_an_endless_delay_becomes_the_longest_possible(queue: Queue, app: App) -> None:
    @app.task(max_attempts=2)
    async def asks() -> None:
        raise Retry(after=timedelta.max)

    @app.task(max_attempts=2, backoff=lambda _: 1e15)
    async def fails() -> None:
        raise ValueError

    @app.task()
    async def waits_a_day() -> None:
        raise Retry(after=timedelta(days=1))

    for task in (asks, fails, waits_a_day):
        task.enqueue()
    assert len(drain(app)) == 3
    assert [(each.status, each.attempts) for each in queue.messages()] == [("scheduled", 1)] * 3


def test_a_refused_message_does_not_delay_others_of_its_batch(
    dsn: str, queue: Queue, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """The database refuses a whole batch because of one of its messages."""
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "CREATE FUNCTION public.refuses() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN"
            " IF OLD.channel = 'cursed' THEN RAISE 'no' USING ERRCODE = '23514'; END IF; RETURN OLD; END $$"
        )
        conn.execute(
            "CREATE TRIGGER refuses BEFORE DELETE ON lonnymq.message"
            " FOR EACH ROW EXECUTE FUNCTION public.refuses()"
        )

    @app.task()
    async def count() -> None: ...

    for n in range(10):
        count.using(channel="cursed" if n == 3 else "fine").enqueue()
    assert drain(app) == [None] * 10
    assert len(queue.history()) == 9
    assert queue.stats().leased == 1
    assert "could not be finished, and is served again when its lease ends" in caplog.text


def test_on_result_may_raise(queue: Queue, app: App) -> None:
    @app.task()
    async def count() -> None: ...

    def callback(_message: Delivery, _error: BaseException | None) -> None:
        raise ValueError("the callback's own")

    for _ in range(5):
        count.enqueue()
    queue.enqueue("for nobody")
    drain(app, concurrency=1, on_result=callback)
    assert len(queue.history()) == 5
    assert queue.stats().leased == 0


def test_on_result_is_not_called_for_messages_that_never_started(queue: Queue, app: App) -> None:
    began, over = threading.Event(), threading.Event()
    results: list[BaseException | None] = []

    @app.task()
    async def fast() -> None: ...

    @app.task()
    def slow() -> None:
        began.set()
        over.wait(TIMEOUT_S)

    async def main() -> None:
        options = {"concurrency": 1, "prefetch": 2, "on_result": lambda _, error: results.append(error)}
        async with serving(app, **options) as worker:
            queue.enqueue_many(fast.message() for _ in range(100))
            await until(lambda: len(queue.history(limit=1000)) == 100)
            results.clear()
            queue.enqueue_many(slow.message() for _ in range(5))
            await until(lambda: began.is_set() and queue.stats().leased > 1)
            worker.stop()
            await until(lambda: queue.stats().leased == 1)
            assert results == []
            over.set()
            await until(lambda: results)

    asyncio.run(main())
    assert results == [None]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("reason", "outcome"), [(StopReason.SHUTDOWN, RELEASE), (StopReason.LEASE_LOST, LOST)]
)
def test_a_handler_that_is_stopped_before_it_starts_does_not_start(
    *, is_async: bool, reason: StopReason, outcome: HandlerOutcome
) -> None:
    """For example while its lease was being extended, when there was nothing to interrupt yet."""
    started: list[Delivery] = []

    async def later(message: Delivery) -> None:
        started.append(message)

    async def main() -> HandlerOutcome:
        message = Delivery(1, "acme", b"", None, None, 1, UUID(int=7), 0)
        leased = LeasedMessage(
            message, RawHandler(later if is_async else started.append, HandlerPolicy()), 30, 0
        )
        leased.interrupt(reason)
        return (await run(leased, InlineJobContext(), Threads(1, list)))[0]

    assert asyncio.run(main()) == outcome
    assert started == []


@pytest.mark.parametrize("is_async", [True, False])
def test_a_message_that_was_cancelled_before_a_save_is_removed_at_once(
    queue: Queue, app: App, *, is_async: bool
) -> None:
    def cancel(number: int) -> None:
        queue.cancel(number)

    @app.task()
    def saves() -> None:
        cancel(Job.current().id)
        Job.current().save(1)

    @app.task()
    async def saves_later() -> None:
        cancel(AsyncJob.current().id)
        await AsyncJob.current().save(1)

    (saves_later if is_async else saves).enqueue()
    drain(app)
    assert queue.stats().leased == 0
    assert [each.outcome for each in queue.history()] == ["cancelled"]


def test_a_worker_stops_though_a_handler_ignores_being_cancelled(queue: Queue, app: App) -> None:
    """Its message is released."""
    over = time.monotonic() + TIMEOUT_S

    @app.task()
    async def unstoppable() -> None:
        worker.stop(force=True)
        while time.monotonic() < over:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)

    worker = Worker(app)
    unstoppable.enqueue()
    began = time.monotonic()
    assert worker.run() == 130
    assert time.monotonic() - began < TIMEOUT_S / 2
    assert [(each.status, each.attempts) for each in queue.messages()] == [("due", 0)]


def test_a_cancelled_worker_releases_the_messages_of_its_running_dequeue(
    dsn: str, conn: psycopg.Connection, queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled after its dequeue leased one message, and while it dispatches for more."""
    # The dequeue takes what is dispatched already, before it dispatches more.
    monkeypatch.setattr("lonnymq.client.consume.QUIET_MS", 60_000)

    @app.task()
    async def never() -> None:
        raise AssertionError("it must not start")

    never.enqueue()
    conn.execute("SELECT dispatch()")
    never.enqueue()

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as gate:
            await gate.execute("LOCK TABLE lonnymq.dispatch_lock IN ACCESS EXCLUSIVE MODE")
            task = asyncio.create_task(Worker(app).serve())
            await until(lambda: is_waiting(conn))
            assert queue.stats().leased
            task.cancel()
            await asyncio.sleep(0.1)
            await gate.rollback()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert queue.stats().leased == 0
    assert [each.attempts for each in queue.messages()] == [0, 0]


def test_a_paused_worker_releases_the_messages_of_its_running_dequeue(
    dsn: str, conn: psycopg.Connection, queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lonnymq.client.consume.QUIET_MS", 60_000)
    monkeypatch.setattr("lonnymq.worker.session.DEQUEUE_TIMEOUT_S", TIMEOUT_S)
    monkeypatch.setattr("lonnymq.worker.registry.PERIOD_S", 0.05)
    started: list[int] = []

    @app.task()
    async def note() -> None:
        started.append(1)

    note.enqueue()
    conn.execute("SELECT dispatch()")
    note.enqueue()

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as gate:
            await gate.execute("LOCK TABLE lonnymq.dispatch_lock IN ACCESS EXCLUSIVE MODE")
            async with serving(app, name="w"):
                await until(lambda: is_waiting(conn) and queue.pause_worker("w"))
                await until(lambda: [each.state for each in queue.workers()] == ["paused"])
                assert queue.stats().leased
                await gate.rollback()
                await until(lambda: queue.stats().leased == 0)
                assert started == []
                queue.resume_worker("w")
                await until(lambda: len(started) == 2)

    asyncio.run(main())


def is_waiting(conn: psycopg.Connection) -> bool:
    return bool(
        conn.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchall()
    )


@pytest.mark.slow
def test_a_worker_stops_soon_in_an_outage(server: AnyServer, dsn: str, queue: Queue, app: App) -> None:
    @app.task()
    async def count() -> None: ...

    async def main() -> float:
        worker = Worker(app)
        task = asyncio.create_task(worker.serve())
        count.enqueue()
        await until(queue.history)
        with no_connections(server, dsn):
            await asyncio.sleep(0.5)
            began = time.monotonic()
            worker.stop()
            await asyncio.wait_for(task, 2 * TIMEOUT_S)
        return time.monotonic() - began

    assert asyncio.run(main()) < TIMEOUT_S / 2


@contextmanager
def no_connections(server: AnyServer, dsn: str) -> Iterator[None]:
    """Terminate all connections to the database, and allow no new ones."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        switch = sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}")
        admin.execute(switch.format(sql.Identifier(name), sql.Literal(False)))  # noqa: FBT003
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        try:
            yield
        finally:
            admin.execute(switch.format(sql.Identifier(name), sql.Literal(True)))  # noqa: FBT003


@contextmanager
def read_only(server: AnyServer, dsn: str) -> Iterator[Queue]:
    """As after a failover, when the address leads to a standby for a while. Yields a queue on the primary."""
    name = sql.Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    with (
        psycopg.connect(server.dsn("postgres"), autocommit=True) as admin,
        Queue(make_conninfo(dsn, options="-c default_transaction_read_only=off")) as primary,
    ):
        admin.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
        query = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
        admin.execute(query, (conninfo_to_dict(dsn)["dbname"],))
        try:
            yield primary
        finally:
            admin.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(name))


def test_a_worker_waits_until_the_database_takes_writes_again(
    server: AnyServer, dsn: str, queue: Queue, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task()
    async def count() -> None: ...

    async def main() -> None:
        async with serving(app):
            count.enqueue()
            await until(lambda: len(queue.history()) == 1)
            with read_only(server, dsn) as primary:
                primary.enqueue_many([count.message()])
                await until(lambda: "the database is unavailable" in caplog.text)
            await until(lambda: len(queue.history()) == 2)

    asyncio.run(main())
    assert "read-only transaction" in caplog.text
    assert "target_session_attrs" in caplog.text


def test_a_connection_to_a_read_only_database_is_closed(server: AnyServer, dsn: str, queue: Queue) -> None:
    """The pool has opened others meanwhile, which are read-only too: each fails once."""
    with read_only(server, dsn), pytest.raises(ReadOnlyDatabase, match="target_session_attrs"):
        queue.enqueue({"n": 1})
    for _ in range(10):
        with suppress(ReadOnlyDatabase):
            queue.enqueue({"n": 2})
    assert queue.enqueue({"n": 3}).result == "created"


@pytest.mark.slow
def test_released_messages_are_not_leased_again_while_handlers_are_busy(queue: Queue, app: App) -> None:
    over = threading.Event()

    @app.task()
    async def fast() -> None: ...

    @app.task()
    def slow() -> None:
        over.wait(TIMEOUT_S)

    async def main() -> None:
        async with serving(app, concurrency=10, prefetch=1) as worker:
            queue.enqueue_many(fast.message() for _ in range(300))
            await until(lambda: len(queue.history(limit=1000)) == 300)
            queue.enqueue_many(slow.message() for _ in range(50))
            await until(lambda: released(worker))
            await asyncio.sleep(1.5)  # a dequeue that was under way may have leased them once more
            before = released(worker)
            await asyncio.sleep(3)
            assert released(worker) == before
            over.set()
            await until(lambda: len(queue.history(limit=1000)) == 350)

    asyncio.run(main())


def released(worker: Worker) -> int:
    assert worker._session is not None
    return int(worker._session.state()["outcomes"].get("released", 0))


def test_a_health_file_that_becomes_unwritable_does_not_stop_the_worker(
    queue: Queue, app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lonnymq.worker.health.PERIOD_S", 0.01)
    folder = tmp_path / "gone"
    folder.mkdir()

    @app.task()
    async def count() -> None: ...

    async def main() -> None:
        async with serving(app, health_file=folder / "health"):
            await until((folder / "health").exists)
            shutil.rmtree(folder)
            await asyncio.sleep(0.1)
            count.enqueue()
            await until(queue.history)

    asyncio.run(main())


def test_a_generator_function_is_not_a_task(app: App) -> None:
    """Calling it does nothing: the message would be completed with nothing done."""

    def yields() -> Iterator[int]:
        yield 1

    async def yields_later() -> AsyncIterator[int]:
        yield 1

    for function in (yields, yields_later):
        with pytest.raises(InvalidArgument):
            app.task()(function)
        with pytest.raises(InvalidArgument):
            app.consume(function)  # type: ignore[type-var]


def test_a_message_that_got_no_thread_has_not_failed(queue: Queue, app: App) -> None:
    """Stuck handlers occupy all threads: the worker stops, and releases the messages it did not start."""
    over = threading.Event()

    @app.task(timeout=0.1, max_attempts=1)
    def stuck() -> None:
        over.wait(TIMEOUT_S)

    @app.task(timeout=0.3, max_attempts=1)
    def fine() -> None: ...

    for task in (stuck, stuck, fine, fine):
        task.enqueue()
    try:
        with pytest.raises(HandlersStuck):
            asyncio.run(Worker(app, concurrency=1).serve())
    finally:
        over.set()
    assert len(queue.dead.list()) == 2
    assert [each.attempts for each in queue.messages()] == [0, 0]
    assert queue.stats().leased == 0


def test_a_handler_whose_lease_cannot_be_extended_is_stopped_when_the_lease_ends(
    dsn: str, queue: Queue, app: App
) -> None:
    """The call that extends it gets no answer, because of a lock or a broken network."""
    began, ended = threading.Event(), threading.Event()

    @app.task()
    async def long() -> None:
        began.set()
        try:
            await asyncio.sleep(2 * TIMEOUT_S)
        finally:
            ended.set()

    long.enqueue()

    async def main() -> None:
        async with serving(app, lease=0.5):
            await until(began.is_set)
            async with await psycopg.AsyncConnection.connect(dsn) as locker:
                await locker.execute("SELECT 1 FROM lonnymq.lease FOR UPDATE")
                await until(ended.is_set)

    asyncio.run(main())


def test_maintenance_that_fails_does_not_stop_the_worker(
    dsn: str,
    queue: Queue,
    app: App,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("lonnymq.worker.maintenance.PERIOD_S", 0.05)
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "CREATE OR REPLACE FUNCTION lonnymq.maintain(p_limit INT DEFAULT 10000) RETURNS BIGINT"
            " LANGUAGE plpgsql AS $$ BEGIN RAISE 'no space left' USING ERRCODE = '53100'; END $$"
        )

    @app.task()
    async def count() -> None: ...

    async def main() -> None:
        async with serving(app):
            await until(lambda: caplog.text.count("no space left") > 1)
            count.enqueue()
            await until(queue.history)

    asyncio.run(main())


def test_a_call_that_the_server_cancels_is_repeated(dsn: str, conn: psycopg.Connection, queue: Queue) -> None:
    """The role has a statement_timeout: the worker goes on, and no message is handled twice."""
    with_timeout = Queue(make_conninfo(dsn, options="-c statement_timeout=200"))
    app, began, ended = App(with_timeout), threading.Event(), threading.Event()

    @app.task()
    def count() -> None:
        began.set()
        ended.wait(TIMEOUT_S)

    async def main() -> None:
        async with serving(app, concurrency=2):
            count.enqueue()
            await until(began.is_set)
            with conn.transaction():
                conn.execute("LOCK TABLE message IN ACCESS EXCLUSIVE MODE")
                ended.set()
                await asyncio.sleep(1)
            await until(queue.history)

    asyncio.run(main())
    with_timeout.close()
    assert [(each.outcome, each.attempts) for each in queue.history()] == [("completed", 1)]


@pytest.mark.slow
def test_whenever_it_stops_nothing_stays_leased_and_nothing_is_lost(queue: Queue, app: App) -> None:
    """Stopped before it has connected, in a dequeue, in handlers, twice, by force, and by cancelling."""
    chance = random.Random(11)
    ran: list[int] = []

    @app.task(backoff=0)
    def plain(n: int) -> None:
        time.sleep(chance.choice([0, 0.001, 0.02]))
        ran.append(n)

    @app.task(backoff=0)
    async def later(n: int) -> None:
        await asyncio.sleep(chance.choice([0, 0.001, 0.02]))
        ran.append(n)

    async def one(how: str) -> None:
        worker = Worker(app, concurrency=4, prefetch=chance.choice([0, 0.25, 2]), shutdown_timeout=0.05)
        task = asyncio.create_task(worker.serve(until_empty=chance.random() < 0.3))
        await asyncio.sleep(chance.choice([0, 0.01, 0.03, 0.1, 0.2]))
        if how == "cancel":
            task.cancel()
        else:
            worker.stop(force=how == "force")
        if how == "twice":
            await asyncio.sleep(0.01)
            worker.stop()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), TIMEOUT_S)
        assert queue.stats().leased == 0, how

    numbers = range(800)
    queue.enqueue_many((plain if n % 2 else later).using(channel=f"c{n % 7}").message(n) for n in numbers)
    for how in ["stop", "force", "twice", "cancel"] * 4:
        asyncio.run(one(how))
    drain(app)
    assert sorted(set(ran)) == list(numbers)
    finished = queue.history(limit=1000)
    assert sorted(json.loads(each.content or b"0")["n"] for each in finished) == list(numbers)
    assert {(each.outcome, each.attempts) for each in finished} == {("completed", 1)}


def test_a_lease_longer_than_the_queue_allows_is_refused_at_the_start(queue: Queue, app: App) -> None:
    queue.set(lease=10, lease_max=60)

    @app.task(lease=61, max_attempts=1)
    async def long() -> None: ...

    long.enqueue()
    with pytest.raises(InvalidLease):
        drain(app)
    assert [(each.status, each.attempts) for each in queue.messages()] == [("due", 0)]
