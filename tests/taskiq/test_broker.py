"""What becomes of the messages of taskiq's tasks: acknowledged, failed, retried, rejected or lost."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import aclosing, suppress
from typing import Annotated, Any

import psycopg
import pytest
from taskiq import (
    AcknowledgeType,
    Context,
    SendTaskError,
    SimpleRetryMiddleware,
    SmartRetryMiddleware,
    TaskiqDepends,
    TaskiqMessage,
    TaskiqMiddleware,
)
from taskiq.depends.progress_tracker import ProgressTracker, TaskState

from lonnymq import AsyncQueue
from lonnymq.errors import ChannelFull, InvalidArgument, InvalidSchemaName, NotEncodable
from lonnymq.taskiq import InvalidLabel, LonnyMQBroker, LonnyMQResultBackend, TaskInterrupted
from lonnymq.taskiq.consumer import UNREADABLE
from tests.taskiq.serving import is_empty, result_of, until, worker

Here = Annotated[Context, TaskiqDepends()]
Tracker = Annotated[ProgressTracker[Any], TaskiqDepends()]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """taskiq logs each error of a task."""
    logging.getLogger("taskiq").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("taskiq").setLevel(logging.NOTSET)


def broker_on(source: Any, **options: Any) -> LonnyMQBroker:
    broker = LonnyMQBroker(source, **options)
    return broker.with_result_backend(LonnyMQResultBackend(broker))


def test_a_task_with_labels_progress_and_a_result(dsn: str) -> None:
    async def main() -> None:
        broker, going_on = broker_on(dsn, channel=lambda message: message.task_name), asyncio.Event()
        channels, order = [], []

        @broker.task(task_name="import", lane="slow", cost=3)
        async def import_rows(rows: int, here: Here, tracker: Tracker) -> int:
            await tracker.set_progress(TaskState.STARTED, 0.25)
            channels.append(here.message.labels["channel"])
            await going_on.wait()
            return rows

        @broker.task(task_name="mail")
        def mail(to: str) -> None:
            order.append(to)

        sent = await import_rows.kicker().with_labels(channel="acme").kiq(7)  # type: ignore[call-overload]
        for to, priority in (("low", -1), ("high", 5), ("none", 0)):
            await mail.kicker().with_labels(priority=priority).kiq(to)
        later = await mail.kicker().with_labels(delay=0.8).kiq("later")
        async with AsyncQueue(dsn) as queue:
            waiting = {each.id: each for each in await queue.messages()}
            assert sorted((m.channel, m.lane, m.status) for m in waiting.values()) == [
                ("acme", "slow", "due"), *[("mail", "default", "due")] * 3, ("mail", "default", "scheduled")
            ]  # fmt: skip
            async with worker(broker, max_async_tasks=2):
                await until(sent.get_progress)
                progress = await sent.get_progress()
                assert progress is not None
                assert (progress.state, progress.meta) == ("STARTED", 0.25)

                async def shown() -> bool:
                    [leased] = await queue.messages(status="leased", channel="acme")
                    status = await queue.status(leased.id)
                    return (status.progress, status.progress_note) == (0.25, "STARTED")

                await until(shown)
                assert not await sent.is_ready()
                going_on.set()
                result = await result_of(sent)
                assert (result.return_value, result.labels["lane"]) == (7, "slow")
                await result_of(later)
                await until(lambda: is_empty(queue))
        assert (channels, order) == (["acme"], ["high", "none", "low", "later"])

    asyncio.run(main())


@pytest.mark.parametrize("ack_type", AcknowledgeType)
def test_when_the_message_is_completed(dsn: str, ack_type: AcknowledgeType) -> None:
    seen: list[tuple[str, bool]] = []

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            broker = broker_on(queue)

            async def note(where: str) -> None:
                seen.append((where, await is_empty(queue)))

            class Steps(TaskiqMiddleware):
                async def post_execute(self, *_: Any) -> None:
                    await note("executed")

                async def post_save(self, *_: Any) -> None:
                    await note("saved")

            @broker.task(ack_type=ack_type.value)
            async def work(here: Here) -> None:
                await note("running")
                if ack_type is AcknowledgeType.MANUAL:
                    await here.ack()
                await note("returning")

            async with worker(broker.with_middlewares(Steps())):
                await result_of(await work.kiq())  # type: ignore[call-overload]
                await until(lambda: is_empty(queue))

    asyncio.run(main())
    steps = ["running", "returning", "executed", "saved"]
    first_empty = {"when_received": 0, "manual": 1, "when_executed": 2, "when_saved": 4}[ack_type.value]
    assert seen == [(step, n >= first_empty) for n, step in enumerate(steps)]


class UnluckyOnce(TaskiqMiddleware):
    """Fails before the first run of a task."""

    has_failed = False

    def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
        if message.task_name == "unlucky" and not self.has_failed:
            self.has_failed = True
            raise OSError("the middleware failed")
        return message


def test_tasks_that_fail(dsn: str) -> None:
    """Retries are taskiq's, with the same id. What fails in the end is a dead letter, with its error."""
    runs: list[str] = []

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            broker = broker_on(queue).with_middlewares(SimpleRetryMiddleware(), UnluckyOnce())

            @broker.task("doomed", retry_on_error=True, max_retries=3, dedupe_key="a", unique_while="running")
            async def doomed() -> None:
                runs.append("doomed")
                raise ValueError("for ever")

            @broker.task("unlucky")
            async def unlucky() -> str:
                return "in the end"

            @broker.task("requeued")
            async def requeued(here: Here) -> str:
                if "X-Taskiq-requeue" not in here.message.labels:
                    await here.requeue()
                return "again"

            @broker.task("rejected")
            async def rejected(here: Here) -> None:
                here.reject()

            await queue.set(history=True)
            async with worker(broker):
                assert isinstance((await result_of(await doomed.kiq())).error, ValueError)
                tasks: list[Any] = [unlucky, requeued, rejected]
                sent = [await task.kiq() for task in tasks]
                assert [(await result_of(each)).return_value for each in sent] == [
                    "in the end",
                    "again",
                    None,
                ]
                await until(lambda: is_empty(queue))
            [dead] = await queue.dead.list()
            assert (dead.error or "").splitlines()[-1] == "ValueError: for ever"
            ended = {each.task: each for each in await queue.history_summary()}
            assert (ended["rejected"].cancelled, ended["unlucky"].completed) == (1, 1)
            [retried] = [e for e in await queue.history() if (e.headers or {})["task"] == "unlucky"]
            assert retried.attempts == 2

    asyncio.run(main())
    assert runs.count("doomed") == 3


def test_messages_and_results_that_cannot_be_used(dsn: str) -> None:
    """They are dead letters. A result that cannot be saved is replaced by the error."""

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            broker = broker_on(queue)

            @broker.task("wrong", ack_type="sometimes", max_attempts=1)
            async def wrong() -> None: ...

            @broker.task("unwritable")
            async def unwritable() -> object:
                return object()

            @broker.task("huge")
            async def huge() -> str:
                return "x" * 2_000_000

            await queue.set(content_max_bytes=1_000_000)
            await queue.enqueue(b"\xff", headers={"task": "huge", "taskiq-id": "7"})
            await queue.enqueue(b"\xff", headers={"task": "huge", "taskiq-schedule": "7"})
            async with worker(broker):
                await wrong.kiq()
                for task in (unwritable, huge):
                    assert isinstance((await result_of(await task.kiq())).error, NotEncodable)
                await until(lambda: is_empty(queue))
            dead = await queue.dead.list()
            assert sorted((each.headers or {})["task"] for each in dead) == [
                "huge",
                "huge",
                "huge",
                "unwritable",
                "wrong",
            ]
            assert UNREADABLE in {each.error for each in dead}

    asyncio.run(main())


def test_retries_with_a_delay_and_without_dead_letters(dsn: str) -> None:
    times: list[float] = []

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            retries = SmartRetryMiddleware(default_retry_label=True, default_delay=0.5, default_retry_count=2)
            broker = broker_on(queue, dead_letters=False).with_middlewares(retries)

            @broker.task
            async def work() -> None:
                times.append(time.monotonic())
                raise ValueError

            async with worker(broker):
                assert (await result_of(await work.kiq())).is_err
                await until(lambda: is_empty(queue))
            assert await queue.dead.list() == []

    asyncio.run(main())
    assert len(times) == 2
    assert times[1] - times[0] >= 0.5


def test_a_task_that_is_longer_than_its_lease(dsn: str) -> None:
    """Even if it blocks the event loop: it runs once."""
    runs: list[int] = []

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            broker = broker_on(queue, lease=1, batch=5)

            @broker.task
            async def block() -> None:
                runs.append(1)
                time.sleep(2.5)  # noqa: ASYNC251 - on purpose

            @broker.task
            async def wait() -> None:
                runs.append(2)
                await asyncio.sleep(2)

            sent = [await block.kiq(), await wait.kiq(), await wait.kiq()]
            async with worker(broker, max_async_tasks=2), worker(broker_on(queue)):
                for each in sent:
                    assert not (await result_of(each)).is_err
                await until(lambda: is_empty(queue))

    asyncio.run(main())
    assert sorted(runs) == [1, 2, 2]


def test_a_task_that_is_cancelled_or_has_lost_its_lease(dsn: str, conn: psycopg.Connection) -> None:
    """Its coroutine is cancelled. Only the result of who has the lease counts."""

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            broker, runs, stopped = broker_on(queue, lease=1), [], []

            @broker.task
            async def work(what: str) -> str:
                runs.append(what)
                if runs.count(what) == 1:
                    try:
                        await asyncio.sleep(3600)
                    finally:
                        stopped.append(what)
                return what

            async with worker(broker):
                cancelled = await work.kicker().with_labels(channel="cancelled").kiq("cancelled")
                lost = await work.kicker().with_labels(channel="lost").kiq("lost")
                await until(lambda: len(runs) == 2)
                [of_cancelled] = await queue.messages(channel="cancelled", status="leased")
                await queue.cancel(of_cancelled.id)
                error = (await result_of(cancelled)).error
                assert isinstance(error, TaskInterrupted)
                conn.execute(
                    "SELECT message_retry(m.id, l.token) FROM message m, lease l WHERE m.channel = 'lost'"
                )
                assert (await result_of(lost)).return_value == "lost"
                await until(lambda: is_empty(queue) if len(stopped) == 2 else False)
            assert sorted(runs) == ["cancelled", "lost", "lost"]
            assert (await lost.get_result()).return_value == "lost", "not that of the first run"

    asyncio.run(main())


def test_the_database_goes_away_and_comes_back(dsn: str, conn: psycopg.Connection) -> None:
    async def main() -> None:
        broker, running, going_on = broker_on(dsn, lease=10), asyncio.Event(), asyncio.Event()

        @broker.task
        async def work(n: int) -> int:
            running.set()
            await going_on.wait()
            return n

        def cut() -> None:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

        async with worker(broker):
            first = await work.kiq(1)
            await running.wait()
            cut()
            going_on.set()
            assert (await result_of(first)).return_value == 1
            await until(lambda: is_empty(broker.queue))
            cut()
            with suppress(SendTaskError):  # if it used one of the old connections
                await work.kiq(2)
            assert (await result_of(await work.kiq(3))).return_value == 3
            await until(lambda: is_empty(broker.queue))

    asyncio.run(main())


def test_shutdown_while_tasks_run(dsn: str) -> None:
    """What is still running after the timeout, and what has not started, is released at no cost."""

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            broker, runs = broker_on(queue, batch=10), asyncio.Semaphore(0)

            @broker.task
            async def work() -> None:
                runs.release()
                await asyncio.sleep(3600)

            for _ in range(5):
                await work.kiq()
            async with worker(broker, max_async_tasks=2, wait_tasks_timeout=0.1):
                for _ in range(2):
                    await runs.acquire()
            stats = await queue.stats()
            assert (stats.waiting, stats.leased) == (5, 0)
            assert [message.attempts for message in await queue.dequeue(5)] == [1] * 5

    asyncio.run(main())


def test_two_brokers_with_different_lanes_and_tasks(dsn: str) -> None:
    """Each serves its lanes. A task that a worker does not know goes to another one."""

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            ran: list[tuple[str, str]] = []
            one, two = broker_on(queue, lane="fast"), broker_on(queue, lane="slow", lanes=["slow", "fast"])

            def add(broker: LonnyMQBroker, where: str, name: str, **labels: Any) -> Any:
                async def work() -> None:
                    ran.append((where, name))

                return broker.register_task(work, name, **labels)

            add(one, "one", "shared")
            shared = add(two, "two", "shared")
            new = add(two, "two", "new", lane="fast")
            await queue.enqueue({"for": "others"}, lane="fast", headers={"task": "shared"})
            async with worker(one):
                sent = [await task.kiq() for task in (shared, new)]
                await until(lambda: one._consumer and one._consumer._finisher.counts["rejected"] >= 2)
                async with worker(two):
                    for each in sent:
                        await result_of(each)

                async def is_left_alone() -> bool:
                    [left] = [*await queue.messages(), *await queue.messages(status="leased")]
                    return left.lane == "fast" and left.attempts == 0

                await until(is_left_alone)
            assert sorted(ran) == [("two", "new"), ("two", "shared")]

    asyncio.run(main())


def test_what_cannot_be_sent(dsn: str) -> None:
    async def main() -> None:
        broker = broker_on(dsn)

        @broker.task
        async def work(text: str = "") -> None: ...

        async def cause(text: str = "", **labels: Any) -> BaseException | None:
            with pytest.raises(SendTaskError) as raised:
                await work.kicker().with_labels(**labels).kiq(text)
            return raised.value.__cause__

        labels: dict[str, Any]
        for labels in ({"priority": "high"}, {"delay": "soon"}, {"run_at": "noon"}, {"channel": None}):
            assert isinstance(await cause(**labels), InvalidLabel)
        for labels in ({"priority": 101}, {"channel": ""}, {"lane": ""}, {"delay": -1}, {"max_attempts": 0}):
            assert isinstance(await cause(**labels), InvalidArgument)
        await broker.queue.set(content_max_bytes=1_000_000)
        assert isinstance(await cause("x" * 1_000_000), InvalidArgument)
        await broker.queue.channel("tiny").set(max_size=1)
        await work.kicker().with_labels(channel="tiny", priority="None").kiq()
        assert isinstance(await cause(channel="tiny"), ChannelFull)
        await broker.shutdown()

    asyncio.run(main())
    options: dict[str, Any]
    for options in ({"lease": 0}, {"lanes": []}, {"batch": 0.5}, {"channel": 7}, {"schema": ""}):
        with pytest.raises((InvalidArgument, InvalidSchemaName)):
            LonnyMQBroker(dsn, **options)
    with pytest.raises(InvalidArgument):
        LonnyMQBroker(7)  # type: ignore[arg-type]


def test_a_task_in_a_transaction(dsn: str) -> None:
    async def main() -> None:
        broker = broker_on(dsn)

        @broker.task
        async def work() -> None: ...

        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            with broker.transaction(conn):
                await work.kiq()
            await conn.rollback()
            assert (await broker.queue.stats()).waiting == 0
            with broker.transaction(conn):
                await work.kiq()
            await conn.commit()
        assert (await broker.queue.stats()).waiting == 1
        await broker.shutdown()

    asyncio.run(main())


def test_a_message_that_its_task_does_not_acknowledge(dsn: str) -> None:
    """It is served again when its lease ends. Whoever listens without taskiq's receiver acknowledges, too."""

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            broker, attempts = broker_on(queue, lease=1), []

            @broker.task(ack_type="manual")
            async def work(here: Here) -> None:
                attempts.append(here.message.task_id)
                if len(attempts) == 2:
                    await here.ack()

            async with worker(broker):
                sent = await work.kiq()  # type: ignore[call-overload]
                await until(lambda: is_empty(queue) if len(attempts) == 2 else False)
            assert attempts == [sent.task_id] * 2

            sent = await work.kiq()  # type: ignore[call-overload]
            async with aclosing(broker.listen()) as messages:
                async for message in messages:
                    assert broker.formatter.loads(message.data).task_id == sent.task_id
                    await message.ack()  # type: ignore[misc]
                    break
            assert await is_empty(queue)
            assert await queue.dead.list() == []
            await broker.shutdown()

    asyncio.run(main())
