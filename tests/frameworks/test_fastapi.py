"""lonnymq.fastapi: the queue of an application, and messages in the transaction of a request."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import asyncpg
import psycopg
import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from lonnymq import App, AsyncQueue, Created, Queue, Worker
from lonnymq.errors import InvalidArgument, InvalidChannel, LonnyMQError
from lonnymq.fastapi import (
    AsyncMessages,
    CurrentQueue,
    CurrentSyncQueue,
    Messages,
    messages_in,
    queue_lifespan,
    sync_messages_in,
)
from tests.frameworks.connections import until_others_are_closed

TABLE = """
    CREATE TABLE public.invoice
        (id INT PRIMARY KEY, later INT REFERENCES public.invoice DEFERRABLE INITIALLY DEFERRED)
"""
NO_SUCH_INVOICE = 99  # a reference to it fails in the commit


@pytest.fixture
def table(conn: psycopg.Connection) -> psycopg.Connection:
    conn.execute(TABLE)
    return conn


def get_tenant(x_tenant: Annotated[str, Header()]) -> str:
    return x_tenant


def write(number: int) -> str:
    return f"INSERT INTO invoice VALUES ({number}, {NO_SUCH_INVOICE if number == 3 else 'NULL'})"


def refuse(number: int) -> None:
    if number == 2:
        raise HTTPException(409, "refused")


def add_sqlalchemy(app: FastAPI, dsn: str) -> None:
    engine = create_async_engine(make_url(dsn).set(drivername="postgresql+psycopg"))

    async def get_session() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(engine) as session, session.begin():
            yield session

    DbSession = Annotated[AsyncSession, Depends(get_session, scope="function")]  # noqa: N806
    RequestMessages = Annotated[AsyncMessages, messages_in(DbSession, channel=get_tenant)]  # noqa: N806

    async def send(number: int, session: DbSession, messages: RequestMessages) -> Created:
        await session.execute(text(write(number)))
        created: Created = await messages.enqueue({"invoice": number}, priority=5)
        await messages.enqueue_many(["copy"], channel="copies")
        refuse(number)
        return created

    app.post("/sqlalchemy/{number}", status_code=201)(send)


def add_asyncpg(app: FastAPI, dsn: str) -> None:
    async def get_connection() -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                yield connection
        finally:
            await connection.close()

    dependency = Depends(get_connection, scope="function")

    async def send(
        number: int,
        connection: Annotated[Any, dependency],
        messages: Annotated[AsyncMessages, messages_in(dependency, channel=get_tenant)],
    ) -> Created:
        await connection.execute(write(number))
        created = await messages.enqueue({"invoice": number})
        await messages.enqueue_many(["copy"], channel="copies")
        refuse(number)
        return created

    app.post("/asyncpg/{number}", status_code=201)(send)


def add_sync_session(app: FastAPI, dsn: str) -> None:
    engine = create_engine(make_url(dsn).set(drivername="postgresql+psycopg"))

    def get_session() -> Iterator[Session]:
        with Session(engine) as session, session.begin():
            yield session

    DbSession = Annotated[Session, Depends(get_session, scope="function")]  # noqa: N806
    RequestMessages = Annotated[Messages, sync_messages_in(DbSession, channel=get_tenant)]  # noqa: N806

    def send(number: int, session: DbSession, messages: RequestMessages) -> Created:
        session.execute(text(write(number)))
        created: Created = messages.enqueue({"invoice": number})
        messages.enqueue_many(["copy"], channel="copies")
        refuse(number)
        return created

    app.post("/sync_session/{number}", status_code=201)(send)


@pytest.mark.parametrize(
    "add", [add_sqlalchemy, add_asyncpg, add_sync_session], ids=lambda add: add.__name__[4:]
)
def test_messages_are_part_of_the_transaction(
    add: Callable[[FastAPI, str], None], dsn: str, table: psycopg.Connection
) -> None:
    """The second request is refused in the handler, the third one by the commit."""
    app = FastAPI(lifespan=queue_lifespan(dsn))
    add(app, dsn)
    path = f"/{add.__name__[4:]}"
    with TestClient(app, raise_server_exceptions=False) as client:
        answers = [
            client.post(f"{path}/{number}", headers={"x-tenant": "acme"}).status_code for number in (1, 2, 3)
        ]
    assert answers == [201, 409, 500]
    assert table.execute("SELECT id FROM public.invoice").fetchall() == [(1,)]
    with Queue(dsn) as queue:
        found = [(message.channel, message.payload) for message in queue.dequeue(10)]
    assert sorted(found) == [("acme", {"invoice": 1}), ("copies", "copy")]


def test_a_task_and_its_channel(dsn: str) -> None:
    """The channel is the call's, the request's or the task's, in this order."""
    tasks = App(Queue(dsn))

    @tasks.task(channel="of the task", max_attempts=7)
    def send_invoice(invoice: int) -> None: ...

    async def get_connection() -> AsyncIterator[psycopg.AsyncConnection]:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            yield connection

    app = FastAPI(lifespan=queue_lifespan(tasks.queue))

    @app.post("/")
    async def send(
        plain: Annotated[AsyncMessages, messages_in(get_connection)],
        of_tenant: Annotated[AsyncMessages, messages_in(get_connection, channel=get_tenant)],
    ) -> bool:
        await plain.using(send_invoice).enqueue_async(1)
        await of_tenant.using(send_invoice).enqueue_async(2)
        await of_tenant.using(send_invoice, channel="of the call").enqueue_async(3)
        await plain.enqueue("no channel")
        return plain.conn is of_tenant.conn

    with TestClient(app) as client:
        assert client.post("/", headers={"x-tenant": "acme"}).json() is True
        with pytest.raises(InvalidChannel, match="needs a name"):
            client.post("/", headers={"x-tenant": ""})
    with Queue(dsn) as queue:
        assert len(queue.messages()) == 4
        with pytest.raises(InvalidChannel, match="needs a name"), psycopg.connect(dsn) as connection:
            Messages(queue, connection, "").enqueue(1)
        found = {(message.channel, message.max_attempts) for message in queue.messages()}
    assert found == {("of the task", 7), ("acme", 7), ("of the call", 7), ("default", None)}


def test_the_queue_lives_as_long_as_the_application(dsn: str, conn: psycopg.Connection) -> None:
    """With a DSN the application can start again. A lifespan of its own runs while the queue is open."""
    seen: list[Any] = []

    @asynccontextmanager
    async def own(_app: FastAPI) -> AsyncIterator[dict[str, str]]:
        yield {"name": "shop"}
        seen.append("closed")

    app = FastAPI(lifespan=queue_lifespan(dsn, around=own))

    @app.post("/")
    async def send(queue: CurrentQueue, request: Request) -> int | None:
        seen.append(queue)
        return (await queue.enqueue(request.state.name)).id

    @app.post("/sync")
    def send_sync(queue: CurrentSyncQueue) -> int | None:
        return queue.enqueue("sync").id

    for first in (1, 3):
        with TestClient(app) as client:
            assert [client.post(path).json() for path in ("/", "/sync")] == [first, first + 1]
        queue = seen[-2]
        assert seen.pop() == "closed"
        with pytest.raises(LonnyMQError, match="closed"):
            queue.as_sync()
    until_others_are_closed(conn)


@pytest.mark.parametrize("make", [Queue, AsyncQueue])
def test_a_queue_or_a_function(make: type[Queue | AsyncQueue], dsn: str) -> None:
    made: list[Queue | AsyncQueue] = []

    def make_queue() -> Queue | AsyncQueue:
        made.append(make(dsn))
        return made[-1]

    for source in (make(dsn), make_queue):
        app = FastAPI(lifespan=queue_lifespan(source))

        @app.post("/")
        async def send(queue: CurrentQueue) -> None:
            await queue.enqueue(1)

        with TestClient(app) as client:
            assert client.post("/").status_code == 200
    assert len(made) == 1
    with pytest.raises(LonnyMQError, match="closed"):
        made[0].as_async() if isinstance(made[0], Queue) else made[0].as_sync()


def test_the_application_does_not_start_without_a_queue(dsn: str) -> None:
    def missing_schema() -> AsyncQueue:
        return AsyncQueue(dsn, schema="nowhere")

    for source, message in ((missing_schema, "nowhere"), ("postgresql://127.0.0.1:1/shop", "connect")):
        with pytest.raises(LonnyMQError, match=message), TestClient(FastAPI(lifespan=queue_lifespan(source))):
            pass


def test_wrong_uses(dsn: str) -> None:
    app = FastAPI()

    @app.get("/")
    async def look(queue: CurrentQueue) -> None: ...

    with pytest.raises(InvalidArgument, match="the application has no queue"), TestClient(app) as client:
        client.get("/")
    with pytest.raises(InvalidArgument, match="a str is not a dependency"):
        messages_in("session")


def test_a_worker_beside_the_application(dsn: str) -> None:
    """When the application stops, a handler that runs can finish."""
    tasks = App(AsyncQueue(dsn))
    steps: list[str] = []
    started, stopping = asyncio.Event(), asyncio.Event()

    @tasks.task(keep_result=60)
    async def add_up(prices: list[int]) -> int:
        return sum(prices)

    @tasks.task()
    async def last() -> None:
        started.set()
        await stopping.wait()
        steps.append("finished")

    @asynccontextmanager
    async def own(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await last.enqueue_async()
        await started.wait()
        asyncio.get_running_loop().call_later(0.2, stopping.set)
        steps.append("stopped")

    app = FastAPI(lifespan=queue_lifespan(tasks.queue, around=own, worker=Worker(tasks)))

    @app.post("/")
    async def total(prices: list[int]) -> Any:
        return await add_up.enqueue_async(prices).wait(timeout=20)

    with TestClient(app) as client:
        assert client.post("/", json=[7, 8]).json() == 15
    assert steps == ["stopped", "finished"]
    with Queue(dsn) as queue:
        assert queue.messages() == []


def test_a_worker_that_stops_is_logged(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    no_tasks = Worker(App(AsyncQueue(dsn)))
    with (
        caplog.at_level(logging.ERROR, "lonnymq.lifespan"),
        TestClient(FastAPI(lifespan=queue_lifespan(dsn, worker=no_tasks))),
    ):
        pass
    assert "the worker of this application stopped" in caplog.text


@pytest.mark.parametrize("name", ["fastapi", "litestar"])
def test_a_missing_package_is_named(name: str) -> None:
    code = f"import sys; sys.modules[{name!r}] = None; import lonnymq.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'lonnymq[{name}]'" in done.stderr.splitlines()[-1]
