"""Schedules in the queue, sent by taskiq's scheduler: each time once, however many schedulers there are."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from taskiq import ScheduledTask, SmartRetryMiddleware, TaskiqScheduler
from taskiq.cli.scheduler.run import SchedulerLoop
from taskiq.exceptions import ScheduledTaskCancelledError
from taskiq.kicker import AsyncKicker

from lonnymq import AsyncQueue
from lonnymq.errors import InvalidArgument, NotEncodable
from lonnymq.taskiq import LonnyMQBroker, LonnyMQScheduleSource
from tests.taskiq.serving import is_empty, until, worker


def schedule(**given: Any) -> ScheduledTask:
    plain: dict[str, Any] = {
        "task_name": "work",
        "labels": {"channel": "acme"},
        "args": [7],
        "kwargs": {"b": None},
    }
    return ScheduledTask(**{**plain, **given})


def test_what_is_stored(dsn: str) -> None:
    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            source = LonnyMQScheduleSource(queue)
            at = datetime(2030, 1, 1, 12, tzinfo=UTC)
            given = [
                schedule(schedule_id="a", cron="*/5 * * * *", cron_offset="Europe/Berlin"),
                schedule(schedule_id="b", cron="* * * * *", cron_offset=timedelta(hours=-3, minutes=-30)),
                schedule(schedule_id="c", interval=timedelta(minutes=1), task_id="always the same"),
                schedule(schedule_id="d", time=at, labels={"priority": "5", "lane": "slow"}),
            ]
            for each in given:
                await source.add_schedule(each)
            assert await source.get_schedules() == given
            listed = [(each.name, each.expression, each.time_zone) for each in await queue.schedules()]
            assert listed == [
                ("taskiq/a", "*/5 * * * *", "Europe/Berlin"),
                ("taskiq/b", "* * * * *", "UTC-03:30"),
                ("taskiq/c", "every 60 s", "UTC"),
                ("taskiq/d", "once, at 2030-01-01 12:00:00 UTC", "UTC"),
            ]
            changed = schedule(schedule_id="a", interval=5)
            await source.add_schedule(changed)
            await source.delete_schedule("b")
            await source.delete_schedule("there is none")
            assert await source.get_schedules() == [changed, *given[2:]]
            with pytest.raises(InvalidArgument):
                await source.add_schedule(schedule(schedule_id="i" * 256, cron="* * * * *"))
            with pytest.raises(InvalidArgument, match="label channel"):
                await source.add_schedule(schedule(schedule_id="e", interval=5, labels={"channel": ""}))
            with pytest.raises(NotEncodable):
                await source.add_schedule(schedule(cron="* * * * *", args=[object()]))
            with pytest.raises(InvalidArgument):
                await source.add_schedule(schedule(cron="* * * * *", labels={"priority": "high"}))

    asyncio.run(main())


def test_each_time_is_sent_once(dsn: str, conn: psycopg.Connection) -> None:
    """By two schedulers at the same time, and again by one that died before it noted that it had sent it."""

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            broker = LonnyMQBroker(queue)
            sources = [LonnyMQScheduleSource(queue) for _ in range(2)]
            schedulers = [TaskiqScheduler(broker, [source]) for source in sources]
            once = schedule(schedule_id="once", time=datetime(2020, 1, 1))  # noqa: DTZ001 - as taskiq allows
            cron = schedule(schedule_id="cron", cron="* * * * *")
            often = schedule(schedule_id="often", interval=3)
            for each in (once, cron, often):
                await sources[0].add_schedule(each)

            async def send(schedule_id: str) -> None:
                """Both read the schedules before either sends."""
                found = [
                    next(s for s in await source.get_schedules() if s.schedule_id == schedule_id)
                    for source in sources
                ]
                await sources[0].pre_send(found[0])  # this one dies before it notes that it has sent it
                message = AsyncKicker("work", broker, found[0].labels)._prepare_message()
                await broker.kick(broker.formatter.dumps(message))
                await asyncio.gather(
                    *(
                        each.on_ready(source, task)
                        for each, source, task in zip(schedulers, sources, found, strict=True)
                    )
                )

            async def sent() -> int:
                return (await queue.stats()).waiting or 0

            await send("once")
            assert await sent() == 1
            assert "taskiq/once" not in [each.name for each in await queue.schedules()]
            minute = datetime.now(UTC).minute
            await send("cron")
            assert await sent() == 2 + (minute != datetime.now(UTC).minute)
            for n in (1, 2):  # the first is due at once, and the next one seconds later
                before, begun_at = await sent(), time.monotonic()
                await send("often")
                assert await sent() == before + 1
                assert n == 1 or time.monotonic() - begun_at > 0.5
            await queue.pause_schedule("taskiq/cron")
            for schedule_id in ("cron", "once"):
                with pytest.raises(ScheduledTaskCancelledError):
                    await sources[0].pre_send(schedule(schedule_id=schedule_id, cron="* * * * *"))

    asyncio.run(main())


def test_a_real_scheduler_with_labels_and_retries(dsn: str) -> None:
    """Two scheduler loops on the labels of one broker; a scheduled task that fails is retried."""

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            runs: list[int] = []
            retries = SmartRetryMiddleware(default_retry_label=True, default_delay=0)
            broker = LonnyMQBroker(queue).with_middlewares(retries)

            @broker.task(
                "work",
                schedule=[
                    {"interval": 2, "args": [1]},
                    {"time": datetime(2020, 1, 1, tzinfo=UTC), "args": [2]},
                ],
            )
            async def work(n: int) -> None:
                runs.append(n)
                if runs.count(n) == 1:
                    raise ValueError

            def source() -> LonnyMQScheduleSource:
                return LonnyMQScheduleSource(queue, labels_of=broker)

            async with worker(broker), schedulers(broker, source, 2):
                await until(lambda: runs.count(1) >= 3)
            async with worker(broker), schedulers(broker, source, 1):
                await until(lambda: runs.count(1) >= 4)
                await queue.run_schedule(
                    next(s.name for s in await queue.schedules() if "once" not in (s.expression or ""))
                )
                await until(lambda: runs.count(1) >= 5)
                await until(lambda: is_empty(queue))
            assert runs.count(2) == 2, "once, and its retry"
            assert len(await queue.schedules()) == 2

    asyncio.run(main())


class schedulers:  # noqa: N801 - a context manager
    """Runs taskiq's scheduler loops, each on its own source."""

    def __init__(
        self, broker: LonnyMQBroker, source: Callable[[], LonnyMQScheduleSource], count: int
    ) -> None:
        self._sources = [source() for _ in range(count)]
        self._loops = [TaskiqScheduler(broker, [each]) for each in self._sources]
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        for source in self._sources:
            await source.startup()
        self._running = [asyncio.create_task(SchedulerLoop(each).run()) for each in self._loops]

    async def __aexit__(self, *_: object) -> None:
        for each in self._running:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each
        for task in asyncio.all_tasks():
            if task.get_name().startswith("schedule_"):
                task.cancel()
