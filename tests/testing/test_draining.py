"""drain: runs the tasks of messages that are due, and returns the outcomes."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from lonnymq import App, AsyncQueue, Delivery, Discard, Job, Queue, Retry
from lonnymq.client.loop_safe_queue import LoopSafeQueue
from lonnymq.errors import InvalidArgument, MessageDead
from lonnymq.testing import Drained, NotDrained, drain, drain_async
from lonnymq.testing.timeline import Timeline
from lonnymq.worker.unknown_tasks import UnknownTask


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as queue:
        yield queue


@pytest.fixture
def app(queue: Queue) -> App:
    return App(queue)


def test_nothing_to_do(app: App) -> None:
    app.task(name="nothing")(lambda: None)
    assert drain(app) == Drained()


def test_an_app_without_tasks(app: App) -> None:
    with pytest.raises(InvalidArgument, match="the app has no tasks"):
        drain(app)


def test_due_messages_and_those_they_enqueue_run_one_at_a_time(app: App) -> None:
    began: list[str] = []
    ended: list[str] = []

    @app.task()
    def whole(parts: int) -> None:
        began.append("whole")
        for number in range(parts):
            part.enqueue(number)
        ended.append("whole")

    @app.task()
    async def part(number: int) -> None:
        began.append(f"part {number}")
        await asyncio.sleep(0.01)
        assert began[:-1] == ended
        ended.append(f"part {number}")

    @app.consume
    def raw(message: Delivery) -> None:
        began.append(message.payload)
        ended.append(message.payload)

    app.queue.enqueue("raw", channel="other")
    whole.enqueue(3)
    assert drain(app) == Drained(completed=5)
    assert sorted(ended) == ["part 0", "part 1", "part 2", "raw", "whole"]
    assert app.queue.messages() == []


def test_scheduled_messages_are_not_run(app: App, queue: Queue) -> None:
    @app.task()
    def later() -> None:
        raise AssertionError

    later.using(delay=60).enqueue()
    assert drain(app) == Drained()
    assert [message.status for message in queue.messages()] == ["scheduled"]


def test_scheduled_messages_run_in_the_order_of_their_times(app: App, queue: Queue) -> None:
    ran: list[str] = []

    @app.task(max_attempts=4, backoff=lambda attempt: 60 * attempt)
    def flaky(name: str) -> None:
        ran.append(f"{name} {Job.current().attempt}")
        if Job.current().attempt < 3:
            raise ZeroDivisionError(name)

    @app.task()
    def parent() -> None:
        ran.append("parent")
        child.enqueue("child now")
        child.using(delay=30).enqueue("child later")

    @app.task()
    async def child(name: str) -> None:
        ran.append(name)

    child.using(delay=86_400).enqueue("tomorrow")
    parent.using(delay=3600, channel="other").enqueue()
    child.using(run_at=datetime.now(UTC) + timedelta(seconds=3620)).enqueue("between")
    child.using(run_at=datetime.now(UTC) + timedelta(seconds=3640), channel="third").enqueue("after")
    flaky.enqueue("flaky")
    child.using(delay=100).enqueue("soon")
    child.using(delay=200).enqueue("less soon")

    drained = drain(app, with_scheduled=True, raise_errors=False)
    assert ran == [
        "flaky 1",  # then it waits for 60 s
        "flaky 2",  # then for 120 s
        "soon",
        "flaky 3",
        "less soon",
        "parent",
        "child now",
        "between",
        "child later",
        "after",
        "tomorrow",
    ]
    assert (drained.completed, len(drained.errors)) == (9, 2)
    assert queue.messages() == []


def test_scheduled_messages_of_the_next_hour(app: App, queue: Queue) -> None:
    ran: list[int] = []

    @app.task()
    def repeat(number: int) -> None:
        ran.append(number)
        repeat.using(delay=600).enqueue(number + 1)

    repeat.enqueue(0)
    assert drain(app, with_scheduled=timedelta(hours=1)).completed == 6
    assert ran == list(range(6))
    with pytest.raises(NotDrained, match="3 scheduled messages were run, and there are still 1"):
        drain(app, with_scheduled=True, limit=3)
    assert ran == list(range(9))
    assert drain(app, with_scheduled=59, limit=0).completed == 0
    assert [message.status for message in queue.messages()] == ["scheduled"]


def test_dead_letters_unknown_tasks_and_pauses_end_it(app: App, queue: Queue) -> None:
    @app.task(max_attempts=3)
    def divide(by: int) -> None:
        raise ZeroDivisionError(by)

    divide.enqueue(1)
    queue.enqueue({}, headers={"task": "unknown"}, delay=60)
    queue.channel("paused").set(paused=True)
    divide.using(channel="paused", delay=60).enqueue(2)
    with pytest.raises(ZeroDivisionError, match="1"):
        drain(app, with_scheduled=True)
    assert [dead.attempts for dead in queue.dead.list()] == [3]
    left = {(message.channel, message.id) for message in queue.messages()}
    assert left == {("default", 2), ("paused", 3)}


def test_a_retry_that_becomes_due_by_itself_is_run(
    app: App, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backoff is over before it could be made due."""
    begin = Timeline.begin

    async def begin_late(found: AsyncQueue, within_ms: int | None) -> Timeline:
        while not await found.messages(status="due"):  # noqa: ASYNC110 - its time has to come
            await asyncio.sleep(0.01)
        return await begin(found, within_ms)

    monkeypatch.setattr(Timeline, "begin", begin_late)

    @app.task(backoff=0.3)
    def divide(by: int) -> None:
        if Job.current().attempt == 1:
            raise ZeroDivisionError(by)

    divide.enqueue(1)
    drained = drain(app, with_scheduled=True, raise_errors=False)
    assert (drained.completed, len(drained.errors), queue.messages()) == (1, 1, [])


def test_results_can_be_read_after_it(app: App, queue: Queue) -> None:
    @app.task(keep_result=60)
    def add(first: int, second: int) -> int:
        Job.current().progress(0.5, "adding")
        return first + second

    @app.task(keep_result=60, max_attempts=2)
    def divide(by: int) -> float:
        return 1 / by

    added, scheduled, failing = add.enqueue(1, 2), add.using(delay=60).enqueue(3, 4), divide.enqueue(0)
    drained = drain(app, with_scheduled=True, raise_errors=False)
    assert (drained.completed, len(drained.errors)) == (2, 2)
    assert (added.wait(timeout=1), scheduled.wait(timeout=1)) == (3, 7)
    with pytest.raises(MessageDead, match="ZeroDivisionError"):
        failing.wait(timeout=1)


def test_batches_and_their_callbacks(app: App, queue: Queue) -> None:
    seen: list[str] = []

    @app.task(max_attempts=2)
    def divide(by: int) -> None:
        seen.append(f"{1 / by:g}")

    @app.task()
    def done() -> None:
        batch = Job.current().batch
        assert batch is not None
        seen.append(f"{batch.name}: {batch.completed} completed, {batch.dead} dead")

    with queue.batch("divisions", on_complete=done.message()) as batch:
        batch.enqueue_many(divide.message(by) for by in (1, 2, 0))
    assert drain(app, raise_errors=False).completed == 2
    assert seen == ["1", "0.5"], "the third one is tried again later"
    assert drain(app, with_scheduled=True, raise_errors=False).completed == 1
    assert seen[2:] == ["divisions: 2 completed, 1 dead"]
    found = queue.batch_status(batch.id)
    assert found is not None
    assert (found.status, found.completed, found.dead) == ("finished", 2, 1)


def test_scheduled_messages_in_an_event_loop(dsn: str) -> None:
    async def program() -> Drained:
        async with AsyncQueue(dsn) as queue:
            app = App(queue)

            @app.task()
            async def later() -> None: ...

            await later.using(delay=60).enqueue_async()
            return await drain_async(app, with_scheduled=True)

    assert asyncio.run(program()) == Drained(completed=1)


def test_schedules_are_not_run(app: App, conn: psycopg.Connection) -> None:
    seen = []

    @app.cron("* * * * *")
    @app.task()
    def every_minute() -> None:
        seen.append("called")

    every_minute.enqueue()
    assert drain(app) == Drained(completed=1)
    assert seen == ["called"]
    assert conn.execute("SELECT FROM schedule").fetchall() == []
    assert len(app.crons) == 1


def test_the_first_error_is_raised_when_all_is_done(app: App, queue: Queue) -> None:
    seen: list[int] = []

    @app.task()
    def divide(by: int) -> None:
        seen.append(by)
        if by < 10:
            raise ZeroDivisionError(by)

    for by in (10, 1, 2, 11):
        divide.enqueue(by)
    with pytest.raises(ZeroDivisionError, match=r"^1$") as raised:
        drain(app)
    assert seen == [10, 1, 2, 11]
    assert "in divide" in "".join(traceback.format_exception(raised.value))
    assert {(message.id, message.status) for message in queue.messages()} == {
        (2, "scheduled"),
        (3, "scheduled"),
    }


def test_errors_are_returned_instead(app: App, queue: Queue) -> None:
    @app.task(backoff=0)
    def divide(by: int) -> None:
        raise ZeroDivisionError(by)

    divide.using(max_attempts=2).enqueue(1)
    drained = drain(app, raise_errors=False)
    assert [repr(error) for error in drained.errors] == ["ZeroDivisionError(1)"] * 2
    assert (drained.completed, drained.retried, drained.discarded) == (0, 0, 0)
    assert len(queue.dead.list()) == 1


def test_retries_and_discards_are_not_errors(app: App) -> None:
    @app.task()
    def not_yet() -> None:
        raise Retry(after=60)

    @app.task()
    def never() -> None:
        raise Discard("it is too late")

    not_yet.enqueue()
    never.enqueue()
    assert drain(app) == Drained(retried=1, discarded=1)


def test_an_unknown_task_is_an_error(app: App) -> None:
    app.task(name="here")(lambda: None)
    app.queue.enqueue({}, headers={"task": "gone"})
    with pytest.raises(UnknownTask, match="gone"):
        drain(app)


def test_a_handler_may_fail_the_test(app: App) -> None:
    @app.task()
    def check() -> None:
        pytest.fail("this should not be called")

    check.enqueue()
    with pytest.raises(pytest.fail.Exception, match="should not be called"):
        drain(app)


def test_it_does_not_change_signal_handlers_or_event_loops(app: App) -> None:
    seen = []

    @app.task()
    def look() -> None:
        seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        look.enqueue()
        drain(app)
        assert asyncio.get_event_loop_policy().get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert seen == [before[0]]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_in_a_loop_one_must_use_drain_async(app: App) -> None:
    seen = []

    @app.task()
    def see(number: int) -> None:
        seen.append(number)

    async def test() -> Drained:
        with pytest.raises(InvalidArgument, match="drain_async"):
            drain(app)
        return await drain_async(app)

    see.enqueue(7)
    assert asyncio.run(test()) == Drained(completed=1)
    assert seen == [7]


def test_an_async_queue_in_several_loops(dsn: str) -> None:
    queue = LoopSafeQueue(dsn, "lonnymq")
    app = App(queue)
    seen = []

    @app.task()
    def see(number: int) -> None:
        seen.append(number)

    asyncio.run(see.enqueue_async(1))
    assert drain(app) == Drained(completed=1)
    asyncio.run(see.enqueue_async(2))
    assert asyncio.run(drain_async(app)) == Drained(completed=1)
    assert seen == [1, 2]
    queue.close_now()


def test_an_async_queue_of_one_loop_is_not_drained_in_another(dsn: str) -> None:
    with pytest.raises(InvalidArgument, match="drain_async"):
        drain(App(AsyncQueue(dsn)))


async def _enqueued_and_drained(dsn: str) -> Drained:
    async with AsyncQueue(dsn) as queue:
        app = App(queue)

        @app.task()
        async def fail() -> None:
            raise ValueError

        await fail.enqueue_async()
        return await drain_async(app, raise_errors=False)


def test_an_async_queue_that_the_test_creates(dsn: str) -> None:
    assert [type(error) for error in asyncio.run(_enqueued_and_drained(dsn)).errors] == [ValueError]
