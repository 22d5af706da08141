"""Threads that handlers run in, and what interrupts them."""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lonnymq.worker.exceptions import JobStopped
from lonnymq.worker.threads import ThreadCall, Threads

TIMEOUT_S = 5


@pytest.fixture(autouse=True)
def _short_interrupt_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lonnymq.worker.threads.INTERRUPT_TIMEOUT_S", 0.05)


async def error_of(call: ThreadCall) -> BaseException | None:
    await asyncio.wait([call.answer], timeout=TIMEOUT_S)
    return call.answer.exception()


async def start_stuck(threads: Threads, over: threading.Event) -> ThreadCall:
    """Start a handler that cannot be interrupted. It returns when `over` is set."""
    has_started = threading.Event()

    def stuck() -> None:
        has_started.set()
        over.wait(TIMEOUT_S)

    call = threads.start(stuck)
    await until(has_started.is_set)
    return call


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - a thread changes it
            await asyncio.sleep(0.001)


async def check_free_threads(threads: Threads, number: int) -> None:
    """Check that this many calls can run at the same time."""
    together = threading.Barrier(number, timeout=TIMEOUT_S)
    calls = [threads.start(together.wait) for _ in range(number)]
    assert [await error_of(call) for call in calls] == [None] * number


async def wait_until_returned(threads: Threads, call: ThreadCall) -> None:
    await until(lambda: call not in threads._stuck)


def test_all_threads_are_usable_after_stuck_handlers_returned() -> None:
    async def main() -> None:
        threads = Threads(5, list)
        for _ in range(2):
            over = threading.Event()
            call = await start_stuck(threads, over)
            threads.interrupt(call)
            assert isinstance(await error_of(call), JobStopped)
            over.set()
            await wait_until_returned(threads, call)
        await check_free_threads(threads, 5)
        threads.close()

    asyncio.run(main())


def test_a_handler_that_returned_no_longer_counts_as_stuck(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        threads = Threads(1, list)
        for _ in range(3):
            over = threading.Event()
            call = await start_stuck(threads, over)
            threads.interrupt(call)
            await error_of(call)
            over.set()
            await wait_until_returned(threads, call)
        threads.close()

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == ["1 handler thread is stuck"] * 3


def test_an_interrupted_call_that_was_waiting_never_starts(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()
    ran: list[int] = []

    async def main() -> None:
        threads = Threads(1, list)
        busy = await start_stuck(threads, over)
        waiting = threads.start(lambda: ran.append(1))
        threads.interrupt(waiting)
        assert isinstance(await error_of(waiting), JobStopped)
        over.set()
        assert await error_of(busy) is None
        assert await error_of(threads.start(lambda: ran.append(2))) is None
        await asyncio.sleep(0.1)
        threads.close()

    asyncio.run(main())
    assert ran == [2]
    assert caplog.records == [], "no thread is stuck"


def test_an_interrupt_never_hits_another_call() -> None:
    """Whenever it comes: before the call starts, during it, as it returns, or when the next one has
    started.
    """
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
        error = await error_of(interrupted)
        hits.append(type(error))
        assert error is None or isinstance(error, JobStopped)
        assert await error_of(innocent) is None
        assert innocent.answer.result() == "done"

    async def main() -> None:
        threads = Threads(2, list)
        for _ in range(1500):
            await one(threads)
        await check_free_threads(threads, 2)
        threads.close()

    asyncio.run(main())
    assert set(hits) == {JobStopped, type(None)}


def test_an_interrupt_never_hits_a_thread_that_the_handler_starts() -> None:
    def starts_threads() -> None:
        while True:
            threading.Thread(target=int).start()
            time.sleep(0.0005)

    async def main() -> None:
        threads = Threads(1, list)
        for _ in range(100):
            call = threads.start(starts_threads)
            await until(partial(getattr, call, "is_started"))
            threads.interrupt(call)
            assert isinstance(await error_of(call), JobStopped)
            assert not threads._stuck, "something else was interrupted"
        threads.close()

    asyncio.run(main())
