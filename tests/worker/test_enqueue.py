"""One task, enqueued by plain and by asynchronous code, whatever queue the app has."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from lonnymq import App, AsyncQueue, Queue
from lonnymq.errors import DatabaseUnreachable, QueueClosed, UnsuitableConnection, WrongArguments
from lonnymq.worker.task import Task
from tests.worker.serving import until


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    """An AsyncQueue belongs to one event loop."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=["Queue", "AsyncQueue"])
def app(dsn: str, loop: asyncio.Runner, request: pytest.FixtureRequest) -> Iterator[App]:
    if request.param == "Queue":
        with Queue(dsn) as queue:
            yield App(queue)
    else:
        async_queue = AsyncQueue(dsn)
        yield App(async_queue)
        loop.run(async_queue.close())


@pytest.fixture
def send(app: App) -> Task[[int], None]:
    @app.task(channel="mail")
    def send(invoice: int) -> None: ...

    return send


def messages(dsn: str) -> list[tuple[str, object]]:
    with Queue(dsn) as queue:
        found = [queue.get(message.id) for message in queue.messages()]
        return [(message.channel, message.payload["invoice"]) for message in found if message is not None]


def is_connected(dsn: str) -> bool:
    """Whether there are connections besides this one."""
    with psycopg.connect(dsn) as conn:
        row = conn.execute(
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND application_name = 'lonnymq'"
        ).fetchone()
        return row is not None and row[0] > 0


def test_both_kinds_of_code_enqueue(dsn: str, loop: asyncio.Runner, send: Task[[int], None]) -> None:
    async def asynchronously() -> None:
        assert (await send.enqueue_async(2)).result == "created"
        assert (await send.using(channel="acme").enqueue_async(3)).result == "created"
        with pytest.raises(WrongArguments, match="task 'send': missing a required argument: 'invoice'"):
            await send.enqueue_async()  # type: ignore[call-arg]

    assert send.enqueue(1).result == "created"
    loop.run(asynchronously())
    assert send.using(channel="acme").enqueue(4).result == "created"
    assert messages(dsn) == [("acme", 3), ("acme", 4), ("mail", 1), ("mail", 2)]


def test_in_the_callers_transaction(dsn: str, loop: asyncio.Runner, send: Task[[int], None]) -> None:
    async def asynchronously() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await send.using(conn=conn).enqueue_async(1)
            assert messages(dsn) == []
            with pytest.raises(UnsuitableConnection, match="a task's enqueue_async"):
                send.using(conn=conn).enqueue(2)

    loop.run(asynchronously())
    with psycopg.connect(dsn) as conn:
        send.using(conn=conn).enqueue(3)
        assert messages(dsn) == [("mail", 1)]
        with pytest.raises(UnsuitableConnection, match="a task's enqueue, with it"):
            loop.run(send.using(conn=conn).enqueue_async(4))
    assert messages(dsn) == [("mail", 1), ("mail", 3)]


def test_what_the_app_opened_is_closed_with_the_queue(
    dsn: str, loop: asyncio.Runner, app: App, send: Task[[int], None]
) -> None:
    async def asynchronously() -> None:
        send.enqueue(1)
        await send.enqueue_async(2)
        assert is_connected(dsn)
        if isinstance(app.queue, Queue):
            app.queue.close()
        else:
            await app.queue.close()
        with pytest.raises(QueueClosed):
            send.enqueue(3)
        with pytest.raises(QueueClosed):
            await send.enqueue_async(4)
        await until(lambda: not is_connected(dsn))

    loop.run(asynchronously())


def test_many_event_loops(dsn: str) -> None:
    """Each thread has its own, and they share the connections."""
    with Queue(dsn) as queue, ThreadPoolExecutor(4) as threads:
        app = App(queue)

        @app.task
        async def send(invoice: int) -> None: ...

        async def three(first: int) -> None:
            await asyncio.gather(*(send.enqueue_async(first + n) for n in range(3)))

        list(threads.map(lambda n: asyncio.run(three(3 * n)), range(20)))
        assert queue.stats().waiting == 60


def test_no_more_connections_than_the_pool_allows(dsn: str) -> None:
    async def main() -> None:
        with Queue(dsn) as queue:
            app = App(queue)

            @app.task
            async def send(invoice: int) -> None: ...

            await asyncio.gather(*(send.enqueue_async(n) for n in range(100)))
            with psycopg.connect(dsn) as conn:
                row = conn.execute(
                    "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'lonnymq'"
                    " AND datname = current_database()"
                ).fetchone()
            assert row is not None
            assert 1 <= row[0] <= 10

    asyncio.run(main())


def test_a_connection_that_the_server_closed_is_replaced(dsn: str) -> None:
    with Queue(dsn) as queue:
        app = App(queue)

        @app.task
        async def send(invoice: int) -> None: ...

        asyncio.run(send.enqueue_async(1))
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'lonnymq' AND datname = current_database()"
            )
        asyncio.run(send.enqueue_async(2))
        assert queue.stats().waiting == 2


def test_an_unreachable_database() -> None:
    with Queue("postgresql://someone@127.0.0.1:1/db", timeout=2) as queue:

        @App(queue).task
        async def send(invoice: int) -> None: ...

        with pytest.raises(DatabaseUnreachable):
            asyncio.run(send.enqueue_async(1))
