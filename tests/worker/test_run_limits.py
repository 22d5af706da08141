"""Limits of one worker: of a task (max_running), and of the share of one channel (channel_share)."""

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import psycopg
import pytest

from lonnymq import App, AsyncJob, Backoff, Job, Queue, Worker
from lonnymq.errors import InvalidArgument, InvalidField
from lonnymq.worker import in_progress, run_limits
from lonnymq.worker.finish import Finisher
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.run_limits import RunLimits
from lonnymq.worker.worker_settings import WorkerSettings
from tests.worker.serving import TIMEOUT_S, drain, serving, until


class Running:
    """Counts how many handlers of each kind run now, and at most did."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done: Counter[str] = Counter()

    def begin(self, kind: str) -> None:
        self.now[kind] += 1
        self.most[kind] = max(self.most[kind], self.now[kind])

    def end(self, kind: str) -> None:
        self.now[kind] -= 1
        self.done[kind] += 1


@pytest.fixture
def running() -> Running:
    return Running()


def test_the_limit_of_a_task(queue: Queue, app: App, running: Running) -> None:
    """Its messages come first, and do not keep others from being started: they wait for the last of those."""
    gate = threading.Event()

    @app.task(max_running=2)
    async def slow() -> None:
        running.begin("slow")
        while not gate.is_set():  # noqa: ASYNC110 - a handler in a thread waits for it, too
            await asyncio.sleep(0.01)
        running.end("slow")

    @app.task(max_running=1)
    def in_a_thread() -> None:
        running.begin("in a thread")
        gate.wait(TIMEOUT_S)
        running.end("in a thread")

    @app.task
    async def fast() -> None:
        running.begin("fast")
        running.end("fast")
        if running.done["fast"] == 20:
            gate.set()

    queue.enqueue_many([slow.message() for _ in range(12)] + [in_a_thread.message() for _ in range(3)])
    queue.enqueue_many(fast.message() for _ in range(20))
    assert drain(app, concurrency=6) == [None] * 35
    assert running.most["slow"] == 2
    assert running.most["in a thread"] == 1
    assert running.done == {"slow": 12, "in a thread": 3, "fast": 20}
    assert {each.attempts for each in queue.history()} == {1}, "being released costs no attempt"


def test_one_tenants_slow_jobs_leave_room_for_another(queue: Queue, app: App, running: Running) -> None:
    gate = asyncio.Event()
    order: list[int] = []

    @app.task
    async def work(number: int) -> None:
        channel = AsyncJob.current().channel
        running.begin(channel)
        if channel == "slow":
            order.append(number)
            await gate.wait()
        running.end(channel)

    for n in range(30):
        work.using(channel="slow").enqueue(n)

    async def main() -> None:
        async with serving(app, concurrency=6, channel_share=0.5):
            await until(lambda: running.now["slow"] == 3)
            for n in range(10):
                enqueued_at = time.monotonic()
                await work.using(channel="quick").enqueue_async(n)
                await until(lambda n=n: running.done["quick"] == n + 1)  # type: ignore[misc]
                assert time.monotonic() - enqueued_at < 5
            assert (running.now["slow"], running.done["slow"]) == (3, 0)
            gate.set()
            await until(lambda: running.done["slow"] == 30)

    asyncio.run(main())
    assert running.most == {"slow": 3, "quick": 1}
    assert order[:3] == [0, 1, 2]
    assert {each.attempts for each in queue.history()} == {1}


def test_messages_that_may_not_start_here_are_free_for_other_workers(queue: Queue, app: App) -> None:
    gate = asyncio.Event()
    workers: dict[int, str] = {}

    @app.task
    async def work(number: int) -> None:
        message = queue.get(AsyncJob.current().id)
        assert message is not None
        workers[number] = message.consumer or ""
        await gate.wait()

    async def main() -> None:
        for n in range(4):
            await work.using(channel="slow").enqueue_async(n)
        async with serving(app, name="first", concurrency=4, channel_share=0.5):
            await until(lambda: len(workers) == 2)
            async with serving(app, name="second", concurrency=4):
                await until(lambda: len(workers) == 4)
                gate.set()

    asyncio.run(main())
    assert Counter(workers.values()) == {"first": 2, "second": 2}


def test_a_worker_that_finds_nothing_to_start_leases_less_often(
    dsn: str, queue: Queue, app: App, running: Running
) -> None:
    gate = asyncio.Event()

    @app.task(max_running=1)
    async def slow() -> None:
        running.begin("slow")
        await gate.wait()
        running.end("slow")

    queue.enqueue_many(slow.message() for _ in range(2000))

    def leased_so_far() -> int:
        with psycopg.connect(dsn) as conn:
            row = conn.execute(
                "SELECT COUNT(*) FROM lonnymq.message m WHERE m.generation > 0 OR EXISTS ("
                "SELECT FROM lonnymq.lease l WHERE ROW(m.id, m.generation)::lonnymq.stub = ANY (l.stubs))"
            ).fetchone()
        assert row is not None
        return int(row[0])

    async def main() -> None:
        async with serving(app, concurrency=10, shutdown_timeout=0):
            await until(lambda: running.now["slow"] == 1)
            started_at = time.monotonic()
            await until(lambda: time.monotonic() - started_at > 2)
            found, seconds = leased_so_far(), time.monotonic() - started_at
            # Up to 20 after each pause of at least an eighth of a second; the first pauses are shorter.
            assert 20 < found <= 150 + 160 * seconds

    asyncio.run(main())


def test_until_empty_waits_for_what_the_worker_released(
    queue: Queue, app: App, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_limits, "RELEASE_DELAYS", Backoff(first=1, longest=1))

    @app.task(max_running=1)
    async def slow() -> None:
        running.begin("slow")
        if running.done["slow"] == 0:
            await until(lambda: len(queue.messages(status="scheduled")) == 2)
        running.end("slow")

    queue.enqueue_many(slow.message() for _ in range(3))
    assert drain(app) == [None] * 3
    assert running.most["slow"] == 1


def test_a_worker_that_stops_releases_what_it_holds(queue: Queue, app: App, running: Running) -> None:
    @app.task(max_running=1)
    def slow() -> None:
        running.begin("slow")
        while not Job.current().is_interrupted:
            time.sleep(0.01)

    queue.enqueue_many(slow.message() for _ in range(5))

    async def main() -> None:
        async with serving(app, shutdown_timeout=0) as worker:
            await until(lambda: running.now["slow"] == 1)
            worker.stop()

    asyncio.run(main())
    assert queue.stats().leased == 0
    assert queue.stats().waiting == 5
    assert {message.attempts for message in queue.messages()} == {0}


@pytest.mark.parametrize(
    ("concurrency", "share", "slots"),
    [(10, None, None), (10, 0.5, 5), (10, 1, 10), (10, 0.01, 1), (3, 0.5, 1), (1, 0.9, 1)],
)
def test_the_share_is_at_least_one_slot(
    app: App, concurrency: int, share: float | None, slots: int | None
) -> None:
    settings = WorkerSettings(app, concurrency, None, 0, 0, None, None, "me", None, share)
    assert settings.channel_slots == slots


@pytest.mark.parametrize("share", [0, -1, 1.1, "0.5", True, float("nan")])
def test_shares_that_are_not_valid(app: App, share: float) -> None:
    with pytest.raises(InvalidArgument, match="channel_share: "):
        Worker(app, channel_share=share)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "2"])
def test_limits_of_a_task_that_are_not_valid(app: App, limit: int) -> None:
    with pytest.raises(InvalidArgument, match="max_running: "):
        app.task(max_running=limit)


def test_lanes(queue: Queue, app: App) -> None:
    seen: list[str] = []

    @app.task(lane="mail")
    def send() -> None:
        seen.append(Job.current().message.lane)

    send.enqueue()
    send.using(lane="reports").enqueue()
    send.using(lane="default").enqueue()
    assert drain(app, lanes=["mail", "nothing here"]) == [None]
    assert seen == ["mail"]
    queue.channel("default").set(paused=True)
    send.enqueue()
    send.using(channel="acme", lane="reports").enqueue()
    assert drain(app, lanes=["mail"]) == [], "it does not wait for a paused channel, nor for another lane"
    queue.channel("default").set(paused=False)
    assert drain(app) == [None] * 4
    assert sorted(seen) == ["default", "mail", "mail", "reports", "reports"]


def test_until_empty_waits_for_what_is_released_late(
    queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delay counts from when the database has the release, however long that takes."""
    monkeypatch.setattr(in_progress, "LIMITED_MAX_S", 0.0)
    give_back = Finisher._give_back

    async def late(self: Finisher, batch: list[Any]) -> None:
        await asyncio.sleep(2 * run_limits.RELEASE_DELAYS.without_jitter(1))
        await give_back(self, batch)

    monkeypatch.setattr(Finisher, "_give_back", late)

    @app.task(max_running=1)
    async def slow() -> None:
        await until(lambda: queue.stats().leased == 1)

    slow.enqueue()
    slow.enqueue()
    assert drain(app) == [None] * 2


def test_until_empty_waits_for_a_message_of_its_lane_that_a_limit_holds_back(queue: Queue, app: App) -> None:
    @app.task(lane="mail")
    def send() -> None: ...

    queue.channel("default").set(rate="5/s")
    for _ in range(3):
        send.enqueue()
    assert drain(app, lanes=["mail"]) == [None] * 3


@pytest.mark.parametrize(
    ("lanes", "error", "says"),
    [
        ([], InvalidArgument, "the list is empty"),
        ("mail", InvalidField, "is not a list of lanes"),
        ([5], InvalidField, "lane: 5 is not a string"),
        ([""], InvalidField, "lane: '' is not valid"),
        (["x" * 256], InvalidField, "is not valid"),
    ],
)
def test_lanes_that_are_not_valid(app: App, lanes: list[str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Worker(app, lanes=lanes)


def test_a_message_is_released_for_longer_each_time(queue: Queue, app: App) -> None:
    @app.task(max_running=1)
    def send() -> None: ...

    async def main() -> None:
        limits = RunLimits(None)
        send.enqueue()
        [delivery] = queue.dequeue()
        leased = LeasedMessage(delivery, send, 30, 0)
        assert [limits.release_delay_ms(leased) for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
        assert limits.start(leased)
        assert not limits.start(leased)
        limits.finished(leased)
        assert limits.start(leased)
        assert limits.release_delay_ms(leased) == 100, "it was started meanwhile"
        assert not limits.is_awaiting_releases
        limits.note_finished(leased)
        assert limits.is_awaiting_releases

    asyncio.run(main())


def test_what_is_remembered_is_bounded(queue: Queue, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_limits, "REMEMBERED", 2)

    @app.task()
    def send() -> None: ...

    async def main() -> None:
        limits = RunLimits(1)
        for n in range(3):
            send.using(channel=f"channel {n}").enqueue()
        messages = [LeasedMessage(each, send, 30, 0) for each in queue.dequeue(3)]
        for leased in messages:
            assert limits.start(leased)
            limits.finished(leased)
        assert not vars(limits)["_running_channels"]
        assert [limits.release_delay_ms(leased) for leased in messages] == [100] * 3
        assert [limits.release_delay_ms(leased) for leased in messages[::-1]] == [200, 200, 100]

    asyncio.run(main())


def test_a_pause_ends_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_limits, "PAUSES", Backoff(first=60, longest=60))

    async def main() -> None:
        limits = RunLimits(1)
        limits.wake()  # without a pause
        pause = asyncio.create_task(limits.note_leased(count=2, limited=2))
        await asyncio.sleep(0)
        assert limits.batch_size(1) == run_limits.SEARCH_BATCH
        limits.wake()
        await asyncio.wait_for(pause, TIMEOUT_S)
        await limits.note_leased(count=2, limited=1)
        assert limits.batch_size(1) == 1

    asyncio.run(main())
