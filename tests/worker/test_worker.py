"""A worker in the test's process, on a real queue: what happens to messages, depending on their handlers."""

import asyncio
import json
import logging
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lonnymq import (
    App,
    AsyncJob,
    AsyncQueue,
    Backoff,
    Delivery,
    Discard,
    Fail,
    Job,
    JobStopped,
    LeaseLost,
    Queue,
    Retry,
    Worker,
)
from lonnymq.commands import ListedMessage
from lonnymq.errors import BrokenContent, InvalidArgument, InvalidTime, UnknownContentType
from lonnymq.worker.exceptions import HandlersStuck
from tests.worker.serving import drain, serving, until


def outcomes(queue: Queue) -> list[tuple[str, str | None]]:
    return [(each.outcome, each.error) for each in queue.history()]


def test_both_kinds_of_handler(queue: Queue, app: App) -> None:
    seen: list[Any] = []

    @app.task(channel="acme")
    def plain(n: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        seen.append((n, Job.current().channel))

    @app.task()
    async def later(n: int) -> None:
        await asyncio.sleep(0)
        seen.append((n, AsyncJob.current().channel))

    @app.consume
    def raw(message: Delivery) -> None:
        seen.append((message.payload, message.channel))

    plain.enqueue(1)
    later.using(channel="bluebird").enqueue(2)
    queue.enqueue("three", channel="raw")
    assert drain(app) == [None] * 3
    assert sorted(seen, key=str) == [("three", "raw"), (1, "acme"), (2, "bluebird")]
    assert outcomes(queue) == [("completed", None)] * 3


def test_tasks_of_an_asynchronous_app(dsn: str) -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        async with AsyncQueue(dsn) as queue:
            app = App(queue)

            @app.task()
            async def count(n: int) -> None:
                seen.append(n)
                if n:
                    await count.enqueue_async(n - 1)

            await count.enqueue_async(3)
            await Worker(app).serve(until_empty=True)
            assert (await queue.stats()).waiting == 0
        return seen

    assert asyncio.run(main()) == [3, 2, 1, 0]


def test_until_empty_waits_for_a_message_that_a_concurrency_limit_holds_back(queue: Queue, app: App) -> None:
    @app.task()
    def send() -> None: ...

    queue.channel("acme").set(max_concurrency=1)
    send.using(channel="acme").enqueue()
    send.using(channel="acme").enqueue()
    [message] = queue.dequeue()
    timer = threading.Timer(0.5, queue.complete, [message])
    timer.start()
    assert drain(app) == [None]
    timer.join()
    assert queue.messages() == []


def test_until_empty_leaves_paused_channels_and_scheduled_messages(queue: Queue, app: App) -> None:
    @app.task()
    def send() -> None: ...

    queue.channel("paused").set(paused=True)
    send.using(channel="paused").enqueue()
    send.using(delay=60).enqueue()
    send.enqueue()
    assert drain(app) == [None]
    assert [message.status for message in queue.messages()] == ["scheduled", "due"]


def test_enqueue_in_the_callers_transaction(dsn: str, queue: Queue, app: App) -> None:
    @app.task()
    def send() -> None: ...

    with psycopg.connect(dsn) as conn:
        send.using(conn=conn).enqueue()
        assert drain(app) == []
    assert drain(app) == [None]


def test_a_failing_message_is_retried_and_then_dead_with_its_traceback(queue: Queue, app: App) -> None:
    @app.task(max_attempts=3, backoff=0)
    def fails(n: int) -> None:
        raise ValueError(f"attempt {Job.current().attempt} of {n}\0")

    fails.enqueue(7)
    assert [str(error) for error in drain(app)] == [f"attempt {n} of 7\0" for n in (1, 2, 3)]
    [dead] = queue.dead.list()
    assert dead.attempts == 3
    assert dead.error is not None
    assert dead.error.startswith("Traceback (most recent call last):\n")
    assert dead.error.endswith("ValueError: attempt 3 of 7\\0")
    assert f'File "{__file__}"' in dead.error
    assert "lonnymq/worker/" not in dead.error, "the worker's own frames are left out"


def test_a_long_traceback_keeps_its_end(queue: Queue, app: App) -> None:
    @app.task(max_attempts=1)
    def fails() -> None:
        raise ValueError("x" * 20_000 + " the end")

    fails.enqueue()
    drain(app)
    [dead] = queue.dead.list()
    assert dead.error is not None
    assert dead.error.startswith("Traceback")
    assert dead.error.endswith("the end")


def test_backoff_delays_the_next_attempt(queue: Queue, app: App) -> None:
    @app.task(backoff=Backoff(first=1000, longest=1000))
    def fails() -> None:
        raise ValueError

    created = fails.enqueue()
    before = time.time()
    assert len(drain(app)) == 1
    message = queue.get(created.id or 0)
    assert message is not None
    assert message.attempts == 1
    assert 499 <= message.dequeue_at / 1000 - before <= 1030


def test_retry(queue: Queue, app: App) -> None:
    @app.task(backoff=1000)
    def asks(counts: bool) -> None:
        if Job.current().message.state is None:
            Job.current().save("asked")
            raise Retry("not ready", after=0, counts=counts)

    first, second = asks.enqueue(counts=True), asks.enqueue(counts=False)
    assert len(drain(app)) == 4
    attempts = {each.id: (each.attempts, each.error) for each in queue.history()}
    assert attempts == {first.id: (2, "not ready"), second.id: (1, None)}


def test_priorities_of_tasks(queue: Queue, app: App) -> None:
    """Both ways, as a default of the task or for one call; they survive a retry and combine with a delay."""
    seen: list[tuple[str, int, int]] = []

    def note(name: str) -> None:
        message = Job.current().message
        seen.append((name, message.priority, message.attempts))
        if message.attempts == 1 and name == "urgent":
            raise Retry("again", after=0)

    @app.task(priority=50, backoff=0)
    def urgent() -> None:
        note("urgent")

    @app.task(priority=-50, cost=3, lane="slow")
    def patient() -> None:
        note("patient")
        assert (Job.current().message.cost, Job.current().message.lane) == (3, "slow")

    @app.task
    def usual() -> None:
        note("usual")

    patient.enqueue()
    usual.using(priority=-100).enqueue()
    usual.enqueue()
    usual.using(priority=7, delay=0.001).enqueue()
    usual.using(priority=100, delay=60).enqueue()
    urgent.enqueue()
    assert len(drain(app, concurrency=1, prefetch=0, lanes=["default"])) == 5
    first_attempts = [(name, priority) for name, priority, attempt in seen if attempt == 1]
    assert first_attempts == [("urgent", 50), ("usual", 7), ("usual", 0), ("usual", -100)]
    assert ("urgent", 50, 2) in seen
    seen.clear()
    assert drain(app) == [None]
    assert seen == [("patient", -50, 1)]


def test_a_handler_that_fails_for_good(queue: Queue, app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(max_attempts=5, backoff=0)
    def fails(reason: str) -> None:
        raise Fail(reason)

    fails.enqueue("no such customer")
    fails.enqueue("")
    assert [type(error) for error in drain(app)] == [Fail, Fail]
    assert [(each.attempts, each.error) for each in queue.dead.list()] == [
        (1, "no such customer"),
        (1, "the handler asked for no further attempt"),
    ]
    assert "no such customer" in caplog.text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{}", "task 'send': the message has no argument 'invoice'"),
        (b'{"invoice": 7, "colour": 1}', "task 'send' takes no argument 'colour'"),
        (b"{", "is not application/json"),
    ],
)
def test_a_message_that_the_task_cannot_take_is_dead_at_once(
    queue: Queue, app: App, content: bytes, says: str
) -> None:
    @app.task(max_attempts=5, backoff=0)
    def send(invoice: int) -> None: ...

    queue.enqueue(content, headers={"task": "send", "content-type": "application/json"})
    assert len(drain(app)) == 1
    [dead] = queue.dead.list()
    assert dead.attempts == 1
    assert dead.error is not None
    assert says in dead.error


def test_an_error_in_the_handler_about_a_payload_is_retried(queue: Queue, app: App) -> None:
    """Only the handler's own message cannot change."""

    @app.task(max_attempts=2, backoff=0)
    def send() -> None:
        raise BrokenContent("another message")

    send.enqueue()
    assert len(drain(app)) == 2
    assert [each.attempts for each in queue.dead.list()] == [2]


def test_discard(queue: Queue, app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task()
    async def drops() -> None:
        raise Discard("no such customer")

    drops.enqueue()
    assert len(drain(app)) == 1
    assert outcomes(queue) == [("cancelled", "no such customer")]
    assert "no such customer" in caplog.text


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_timeout(queue: Queue, app: App, kind: str) -> None:
    ended: list[BaseException] = []

    @app.task(timeout=0.2, max_attempts=1)
    def plain() -> None:
        try:
            while True:
                time.sleep(0.01)
        except JobStopped as error:
            ended.append(error)
            raise

    @app.task(timeout=0.2, max_attempts=1)
    async def asynchronous() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            ended.append(error)
            raise

    app.tasks[kind].enqueue()
    [error] = drain(app)
    assert isinstance(error, TimeoutError)
    assert len(ended) == 1
    [dead] = queue.dead.list()
    assert dead.error == f"TimeoutError: {kind} took longer than 0.2 s"


def test_a_thread_that_cannot_be_interrupted_is_replaced(queue: Queue, app: App) -> None:
    """It sleeps in C. After the interrupt timeout its message counts as failed, and others are handled."""
    over = threading.Event()

    @app.task(timeout=0.1, max_attempts=1)
    def stuck() -> None:
        over.wait(60)

    @app.task()
    def fine() -> None: ...

    stuck.enqueue()
    fine.enqueue()
    fine.enqueue()
    try:
        raised = drain(app, concurrency=1)
    finally:
        over.set()
    assert [type(error) for error in raised] == [TimeoutError, type(None), type(None)]
    assert len(queue.dead.list()) == 1


def test_a_worker_whose_threads_are_all_stuck_stops(queue: Queue, app: App) -> None:
    """What it leased could never start. The handlers wait in C, so nothing can interrupt them."""
    over = threading.Event()

    @app.task(timeout=0.1, backoff=1000)
    def stuck() -> None:
        over.wait(60)

    for _ in range(3):
        stuck.enqueue()
    try:
        with pytest.raises(HandlersStuck, match="all threads are occupied"):
            drain(app, concurrency=1)
    finally:
        over.set()
    assert queue.stats().leased == 0, "all messages were given back"


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_leases_are_extended_while_a_handler_runs(queue: Queue, app: App, kind: str) -> None:
    @app.task()
    def plain() -> None:
        time.sleep(2)

    @app.task()
    async def asynchronous() -> None:
        await asyncio.sleep(2)

    app.tasks[kind].enqueue()
    other = App(queue)
    other.tasks = app.tasks

    async def main() -> None:
        """Two workers: if the lease ran out, the other one would get the message."""
        async with serving(app, lease=0.5), serving(other, lease=0.5):
            await until(queue.history)

    asyncio.run(main())
    [finished] = queue.history()
    assert (finished.outcome, finished.attempts) == ("completed", 1)


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_a_handler_whose_lease_was_lost_is_stopped(dsn: str, queue: Queue, app: App, kind: str) -> None:
    began, ended = threading.Event(), threading.Event()

    @app.task()
    def plain() -> None:
        began.set()
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    @app.task()
    async def asynchronous() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    created = app.tasks[kind].enqueue()
    raised: list[BaseException | None] = []

    async def main() -> None:
        async with serving(app, lease=1, on_result=lambda _, error: raised.append(error)) as worker:
            await until(began.is_set)
            worker.stop()
            with psycopg.connect(dsn, autocommit=True) as conn:  # as if another worker had it now
                conn.execute("UPDATE lonnymq.lease SET token = gen_random_uuid()")
            await until(ended.is_set)

    asyncio.run(main())
    assert len(raised) == 1
    message = queue.get(created.id or 0)
    assert message is not None
    assert (message.status, message.attempts, message.error) == ("leased", 1, None), (
        "the first worker did not touch it"
    )


def test_a_cancelled_message_stops_its_handler(queue: Queue, app: App) -> None:
    began, ended = threading.Event(), threading.Event()

    @app.task()
    async def long() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    created = long.enqueue()

    async def main() -> None:
        async with serving(app, lease=1):
            await until(began.is_set)
            queue.cancel(created.id or 0)
            await until(ended.is_set)

    asyncio.run(main())
    assert outcomes(queue) == [("cancelled", None)]


def test_a_task_with_a_longer_lease_gets_it_before_it_starts(dsn: str, queue: Queue, app: App) -> None:
    """So it may block the loop for longer than the shortest lease."""
    left: list[int] = []

    @app.task(lease=30)
    async def blocks() -> None:
        with psycopg.connect(dsn) as conn:
            row = conn.execute("SELECT end_at - lonnymq.clock_ms() FROM lonnymq.lease").fetchone()
        assert row is not None
        left.append(row[0])

    @app.task(lease=1)
    def short() -> None: ...

    blocks.enqueue()
    assert drain(app) == [None]
    assert 20_000 < left[0] <= 30_000


def test_state_outlives_the_worker(queue: Queue, app: App) -> None:
    """It is stored when it is saved, not when the handler finishes. Another worker continues from there."""
    pages: list[int] = []
    saved = threading.Event()

    @app.task()
    async def paged() -> None:
        job = AsyncJob.current()
        for page in range(job.state or 0, 3):
            pages.append(page)
            await job.save(page + 1)
            if page == 1:
                saved.set()
                await asyncio.sleep(0 if job.attempt > 1 or len(pages) > 2 else 60)

    paged.enqueue()

    async def main() -> None:
        async with serving(app, shutdown_timeout=0):
            await until(saved.is_set)

    asyncio.run(main())
    assert drain(app) == [None]
    assert pages == [0, 1, 2]


def test_state_of_a_plain_handler(queue: Queue, app: App) -> None:
    states: list[Any] = []

    @app.task(backoff=0)
    def paged() -> None:
        states.append(Job.current().state)
        if len(states) == 1:
            Job.current().save({"page": 3})
            raise Retry

    paged.enqueue()
    drain(app)
    assert states == [None, {"page": 3}]


def test_complete_in_the_handlers_own_transaction(dsn: str, queue: Queue, app: App) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE TABLE paid (n INT)")

    @app.task(backoff=0)
    def pays(n: int) -> None:
        with psycopg.connect(dsn) as conn:
            conn.execute("INSERT INTO paid VALUES (%s)", (n,))
            Job.current().complete(conn=conn)
            if Job.current().attempt == 1:
                raise ValueError("this rolls back, and the message is still there")

    @app.task()
    async def pays_later(n: int) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await conn.execute("INSERT INTO paid VALUES (%s)", (n,))
            await AsyncJob.current().complete(conn=conn)

    pays.enqueue(1)
    pays_later.enqueue(2)
    raised = drain(app)
    assert sorted(type(error).__name__ for error in raised) == ["NoneType", "NoneType", "ValueError"]
    with psycopg.connect(dsn) as conn:
        assert sorted(conn.execute("SELECT n FROM paid").fetchall()) == [(1,), (2,)]
    assert [each.outcome for each in queue.history()] == ["completed"] * 2


def test_a_message_that_the_handler_completed_is_counted_as_completed(
    dsn: str, queue: Queue, app: App, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task()
    def pays() -> None:
        with psycopg.connect(dsn) as conn:
            Job.current().complete(conn=conn)

    @app.task()
    def does_nothing() -> None: ...

    pays.enqueue()
    does_nothing.enqueue()
    health = tmp_path / "health.json"
    with caplog.at_level(logging.INFO, "lonnymq.worker"):
        assert drain(app, health_file=health, name="me") == [None, None]
    assert json.loads(health.read_text())["outcomes"] == {"completed": 2}
    assert "me stopped: 2 completed" in caplog.text
    assert "not committed" not in caplog.text


def test_a_released_message_is_not_counted_as_retried(queue: Queue, app: App, tmp_path: Path) -> None:
    @app.task(backoff=3600)
    def pays(error: str) -> None:
        raise Retry(after=3600, counts=False) if error == "not ready" else ValueError(error)

    pays.enqueue("not ready")
    pays.enqueue("no money")
    health = tmp_path / "health.json"
    drain(app, health_file=health)
    assert json.loads(health.read_text())["outcomes"] == {"released": 1, "retried": 1}


@pytest.mark.parametrize("end", ["left open", "rolled back"])
def test_a_handler_that_forgets_to_commit_is_warned(
    dsn: str, queue: Queue, app: App, tmp_path: Path, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    connections: list[psycopg.Connection] = []

    @app.task()
    def forgets() -> None:
        conn = psycopg.connect(dsn)
        connections.append(conn)
        Job.current().complete(conn=conn)
        if end == "rolled back":
            conn.rollback()

    created = forgets.enqueue()
    health = tmp_path / "health.json"
    assert drain(app, health_file=health) == [None]
    [warning] = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.startswith(f"forgets (message {created.id}, ")
    assert "was completed in a transaction that is not committed" in warning
    assert "Commit the transaction before the handler returns" in warning
    assert json.loads(health.read_text())["outcomes"] == {"not committed": 1}
    for conn in connections:
        conn.close()
    assert queue.stats().leased == 1, "until its lease ends"


def test_completing_a_lost_message_rolls_back_the_transaction(dsn: str, queue: Queue, app: App) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE TABLE paid (n INT)")

    @app.task()
    def pays(n: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as thief:
            thief.execute("UPDATE lonnymq.lease SET token = gen_random_uuid()")
        with psycopg.connect(dsn) as conn:
            conn.execute("INSERT INTO paid VALUES (%s)", (n,))
            Job.current().complete(conn=conn)

    pays.enqueue(1)
    [error] = drain(app)
    assert isinstance(error, LeaseLost)
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT n FROM paid").fetchall() == []
    assert queue.stats().leased == 1


def test_a_handler_that_raises_system_exit_only_fails(queue: Queue, app: App) -> None:
    @app.task(max_attempts=1)
    def leaves() -> None:
        raise SystemExit(3)

    @app.task(max_attempts=1)
    async def leaves_too() -> None:
        raise KeyboardInterrupt

    leaves.enqueue()
    leaves_too.enqueue()
    assert len(drain(app)) == 2
    assert len(queue.dead.list()) == 2


def test_ready_messages_are_released_when_handlers_become_slow(queue: Queue, app: App) -> None:
    over = threading.Event()

    @app.task()
    async def fast() -> None: ...

    @app.task()
    def slow() -> None:
        over.wait(30)

    async def main() -> None:
        async with serving(app, concurrency=2, prefetch=2):
            queue.enqueue_many(fast.message() for _ in range(200))
            await until(lambda: queue.stats().waiting == 0 and queue.stats().leased == 0)
            queue.enqueue_many(slow.message() for _ in range(50))
            await until(lambda: queue.stats().leased > 2)
            await until(lambda: queue.stats().leased == 2)
            released: list[ListedMessage] = []

            def are_listed() -> bool:  # when they are dispatched again
                released[:] = queue.messages()
                return bool(released)

            await until(are_listed)
            assert {message.attempts for message in released} == {0}
            over.set()
            await until(lambda: queue.stats().waiting == 0 and queue.stats().leased == 0)

    asyncio.run(main())
    assert {(each.outcome, each.attempts) for each in queue.history(limit=1000)} == {("completed", 1)}


def test_a_locked_message_does_not_delay_others_of_its_call(
    dsn: str, queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lonnymq.worker.collector.CALL_TIMEOUT_S", 0.3)
    done: list[int] = []

    @app.task()
    async def count(n: int) -> None:
        await asyncio.sleep(0.5)
        done.append(n)

    for n in range(8):
        count.enqueue(n)

    async def main() -> None:
        async with serving(app):
            await until(lambda: queue.stats().leased == 8)
            async with await psycopg.AsyncConnection.connect(dsn) as locker:
                await locker.execute("SELECT 1 FROM lonnymq.message ORDER BY id LIMIT 1 FOR UPDATE")
                await until(lambda: len(queue.history()) == 7)
            await until(lambda: len(queue.history()) == 8)

    asyncio.run(main())
    assert sorted(done) == list(range(8))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"concurrency": 0}, InvalidArgument),
        ({"concurrency": 1.5}, InvalidArgument),
        ({"lease": 0}, InvalidArgument),
        ({"health_file": "/"}, InvalidArgument),
        ({"prefetch": -1}, InvalidTime),
        ({"shutdown_timeout": -1}, InvalidTime),
    ],
)
def test_wrong_options(app: App, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Worker(app, **options)


def test_handlers_do_not_see_context_variables_of_each_other(app: App) -> None:
    tenant: ContextVar[str | None] = ContextVar("tenant", default=None)
    seen: list[str | None] = []

    @app.task()
    async def in_the_loop(number: int) -> None:
        seen.append(tenant.get())
        tenant.set(f"tenant {number}")

    @app.task()
    def in_a_thread(number: int) -> None:
        seen.append(tenant.get())
        tenant.set(f"tenant {number}")

    for number in range(5):
        in_the_loop.enqueue(number)
        in_a_thread.enqueue(number)
    drain(app, concurrency=1)
    assert seen == [None] * 10


@pytest.mark.parametrize("content_type", [5, ["application/json"], "text/xml"])
def test_a_content_type_that_cannot_be_decoded_is_no_reason_for_another_attempt(
    queue: Queue, app: App, content_type: Any
) -> None:
    @app.task()
    def send() -> None: ...

    queue.enqueue(b"{}", headers={"task": "send", "content-type": content_type})
    [raised] = drain(app)
    assert isinstance(raised, UnknownContentType)
    [dead] = queue.dead.list()
    assert dead.attempts == 1
    assert repr(content_type) in (dead.error or "")


def test_a_worker_can_be_started_again(app: App) -> None:
    done: list[int] = []

    @app.task()
    async def count(n: int) -> None:
        done.append(n)

    worker = Worker(app)

    async def main() -> None:
        for n in range(3):
            count.enqueue(n)
            serving_again = asyncio.create_task(worker.serve())
            await until(lambda: len(done) == n + 1 or serving_again.done())  # noqa: B023 - awaited here
            worker.stop()
            await serving_again

    asyncio.run(main())
    assert done == [0, 1, 2]
