"""A worker that is hit where it hurts: at the wrong moment, with the wrong value, by a deaf handler."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from lonnymq import App, Created, Delivery, Discard, Queue, Retry, Worker

PATIENCE = 20


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        made.set(history=True)
        yield made


@pytest.fixture
def app(queue: Queue) -> App[Created]:
    return App(queue)


def drain(app: App[Any], **options: Any) -> list[BaseException | None]:
    raised: list[BaseException | None] = []
    worker = Worker(app, **{"on_result": lambda _, error: raised.append(error)} | options)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            await worker.serve(until_empty=True)

    asyncio.run(main())
    return raised


@asynccontextmanager
async def serving(app: App[Any], **options: Any) -> AsyncIterator[Worker]:
    worker = Worker(app, **options)
    task = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(task, PATIENCE)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it is the database, or a thread, that changes
            await asyncio.sleep(0.01)


def test_texts_that_the_database_does_not_take(queue: Queue, app: App[Created]) -> None:
    """Neither such a message nor those that end together with it are held for longer than they must be."""
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
    async def is_as_usual() -> None:
        raise ValueError("as usual")

    for n in range(len(texts)):
        for task in (fails, asks, drops):
            task.enqueue(n)
        is_as_usual.enqueue()
    assert len(drain(app, concurrency=20)) == 12
    assert queue.stats().leased == 0
    dead = [each.error or "" for each in queue.dead.list()]
    assert len(dead) == 9
    assert sum("as usual" in error for error in dead) == 3
    assert sum("a\\0b" in error for error in dead) == 2
    assert sum("half \\ud83d of it" in error for error in dead) == 2
    gone = [each.error or "" for each in queue.history() if each.outcome == "cancelled"]
    assert sorted(error[:10] for error in gone) == ["a\\0b", "half \\ud83", "x" * 10]


def test_a_delay_that_never_ends_is_the_longest_there_is(queue: Queue, app: App[Created]) -> None:
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


def test_one_that_is_refused_does_not_keep_back_the_others(
    dsn: str, queue: Queue, app: App[Created], caplog: pytest.LogCaptureFixture
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
    assert "is left to its lease" in caplog.text


def test_a_callback_that_raises_costs_nothing(queue: Queue, app: App[Created]) -> None:
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


def test_no_result_is_told_of_what_was_handed_back_unbegun(queue: Queue, app: App[Created]) -> None:
    over = threading.Event()
    results: list[BaseException | None] = []

    @app.task()
    async def fast() -> None: ...

    @app.task()
    def slow() -> None:
        over.wait(PATIENCE)

    async def main() -> None:
        options = {"concurrency": 1, "prefetch": 2, "on_result": lambda _, error: results.append(error)}
        async with serving(app, **options) as worker:
            queue.enqueue_many(fast.message() for _ in range(100))
            await until(lambda: len(queue.history(limit=1000)) == 100)
            results.clear()
            queue.enqueue_many(slow.message() for _ in range(5))
            await until(lambda: queue.stats().leased > 1)
            worker.stop()
            await until(lambda: queue.stats().leased == 1)
            assert results == []
            over.set()
            await until(lambda: results)

    asyncio.run(main())
    assert results == [None]
