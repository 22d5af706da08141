"""Threads that handlers run in, and what interrupts them."""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from lonnymq.worker.exceptions import JobStopped
from lonnymq.worker.threads import Threads, Work

PATIENCE = 5


@pytest.fixture(autouse=True)
def _is_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lonnymq.worker.threads.GRACE", 0.05)


async def ended(work: Work) -> BaseException | None:
    await asyncio.wait([work.answer], timeout=PATIENCE)
    return work.answer.exception()


async def begun(threads: Threads, over: threading.Event) -> Work:
    """A handler that nothing reaches until it is over."""
    has_begun = threading.Event()

    def stuck() -> None:
        has_begun.set()
        over.wait(PATIENCE)

    work = threads.start(stuck)
    await until(has_begun.is_set)
    return work


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it is a thread that changes
            await asyncio.sleep(0.001)


async def serve_together(threads: Threads, number: int) -> None:
    """So many of them are there, and free."""
    together = threading.Barrier(number, timeout=PATIENCE)
    works = [threads.start(together.wait) for _ in range(number)]
    assert [await ended(work) for work in works] == [None] * number


async def came_back(threads: Threads, work: Work) -> None:
    await until(lambda: work not in threads._stuck)


def test_all_threads_serve_after_one_that_was_stuck_came_back() -> None:
    async def main() -> None:
        threads = Threads(5, list)
        for _ in range(2):
            over = threading.Event()
            work = await begun(threads, over)
            threads.interrupt(work)
            assert isinstance(await ended(work), JobStopped)
            over.set()
            await came_back(threads, work)
        await serve_together(threads, 5)
        threads.close()

    asyncio.run(main())


def test_who_was_stuck_once_is_not_counted_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        threads = Threads(1, list)
        for _ in range(3):
            over = threading.Event()
            work = await begun(threads, over)
            threads.interrupt(work)
            await ended(work)
            over.set()
            await came_back(threads, work)
        threads.close()

    asyncio.run(main())
    said = [record.getMessage() for record in caplog.records]
    assert said == ["a handler does not end, and keeps its thread: 1 do"] * 3


def test_what_has_not_begun_ends_at_once_and_never_begins(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()
    ran: list[int] = []

    async def main() -> None:
        threads = Threads(1, list)
        busy = await begun(threads, over)
        waiting = threads.start(lambda: ran.append(1))
        threads.interrupt(waiting)
        assert isinstance(await ended(waiting), JobStopped)
        over.set()
        assert await ended(busy) is None
        assert await ended(threads.start(lambda: ran.append(2))) is None
        await asyncio.sleep(0.1)
        threads.close()

    asyncio.run(main())
    assert ran == [2]
    assert caplog.records == [], "it keeps no thread"


def test_an_interrupt_hits_its_own_work_or_nothing() -> None:
    """Whenever it comes: before the work begins, in its midst, as it ends, or when the next has begun."""
    chance = random.Random(7)
    hits: list[Any] = []

    def work_for(seconds: float) -> Callable[[], str]:
        def work() -> str:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass
            return "done"

        return work

    async def one(threads: Threads) -> None:
        seconds = chance.uniform(0, 0.0005)
        interrupted, innocent = threads.start(work_for(seconds)), threads.start(work_for(seconds))
        await asyncio.sleep(chance.uniform(0, 0.001))
        threads.interrupt(interrupted)
        error = await ended(interrupted)
        hits.append(type(error))
        assert error is None or isinstance(error, JobStopped)
        assert await ended(innocent) is None
        assert innocent.answer.result() == "done"

    async def main() -> None:
        threads = Threads(2, list)
        for _ in range(1500):
            await one(threads)
        await serve_together(threads, 2)
        threads.close()

    asyncio.run(main())
    assert set(hits) == {JobStopped, type(None)}
