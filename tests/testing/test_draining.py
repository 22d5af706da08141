"""drain: runs the tasks of messages that are due, and returns the outcomes."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Iterator

import psycopg
import pytest

from lonnymq import App, AsyncQueue, Created, Delivery, Discard, Queue, Retry
from lonnymq.errors import InvalidArgument
from lonnymq.testing import Drained, drain, drain_async
from lonnymq.testing.loop_safe_queue import LoopSafeQueue
from lonnymq.worker.unknown_tasks import UnknownTask


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as queue:
        yield queue


@pytest.fixture
def app(queue: Queue) -> App[Created]:
    return App(queue)


def test_nothing_to_do(app: App[Created]) -> None:
    assert drain(app) == Drained()


def test_due_messages_and_those_they_enqueue_run_one_at_a_time(app: App[Created]) -> None:
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


def test_scheduled_messages_are_not_run(app: App[Created], queue: Queue) -> None:
    @app.task()
    def later() -> None:
        raise AssertionError

    later.using(delay=60).enqueue()
    assert drain(app) == Drained()
    assert [message.status for message in queue.messages()] == ["scheduled"]


def test_schedules_are_not_run(app: App[Created], conn: psycopg.Connection) -> None:
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


def test_the_first_error_is_raised_when_all_is_done(app: App[Created], queue: Queue) -> None:
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


def test_errors_are_returned_instead(app: App[Created], queue: Queue) -> None:
    @app.task(backoff=0)
    def divide(by: int) -> None:
        raise ZeroDivisionError(by)

    divide.using(max_attempts=2).enqueue(1)
    drained = drain(app, raise_errors=False)
    assert [repr(error) for error in drained.errors] == ["ZeroDivisionError(1)"] * 2
    assert (drained.completed, drained.retried, drained.discarded) == (0, 0, 0)
    assert len(queue.dead.list()) == 1


def test_retries_and_discards_are_not_errors(app: App[Created]) -> None:
    @app.task()
    def not_yet() -> None:
        raise Retry(after=60)

    @app.task()
    def never() -> None:
        raise Discard("it is too late")

    not_yet.enqueue()
    never.enqueue()
    assert drain(app) == Drained(retried=1, discarded=1)


def test_an_unknown_task_is_an_error(app: App[Created]) -> None:
    app.queue.enqueue({}, headers={"task": "gone"})
    with pytest.raises(UnknownTask, match="gone"):
        drain(app)


def test_a_handler_may_fail_the_test(app: App[Created]) -> None:
    @app.task()
    def check() -> None:
        pytest.fail("this should not be called")

    check.enqueue()
    with pytest.raises(pytest.fail.Exception, match="should not be called"):
        drain(app)


def test_it_does_not_change_signal_handlers_or_event_loops(app: App[Created]) -> None:
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


def test_in_a_loop_one_must_use_drain_async(app: App[Created]) -> None:
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

    asyncio.run(see.enqueue(1))
    assert drain(app) == Drained(completed=1)
    asyncio.run(see.enqueue(2))
    assert asyncio.run(drain_async(app)) == Drained(completed=1)
    assert seen == [1, 2]
    queue.close_without_loop()


def test_an_async_queue_of_one_loop_is_not_drained_in_another(dsn: str) -> None:
    with pytest.raises(InvalidArgument, match="drain_async"):
        drain(App(AsyncQueue(dsn)))


async def _enqueued_and_drained(dsn: str) -> Drained:
    async with AsyncQueue(dsn) as queue:
        app = App(queue)

        @app.task()
        async def fail() -> None:
            raise ValueError

        await fail.enqueue()
        return await drain_async(app, raise_errors=False)


def test_an_async_queue_that_the_test_creates(dsn: str) -> None:
    assert [type(error) for error in asyncio.run(_enqueued_and_drained(dsn)).errors] == [ValueError]
