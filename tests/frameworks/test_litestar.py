"""lonnymq.litestar: the queue of an application, and messages in the transaction of a request."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from litestar import Litestar, Request, post
from litestar.di import NamedDependency, Provide
from litestar.exceptions import ClientException
from litestar.params import FromPath, JSONBody
from litestar.testing import TestClient
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from lonnymq import App, AsyncQueue, Queue, Worker
from lonnymq.errors import InvalidArgument, SchemaMissing
from lonnymq.litestar import AsyncMessages, QueuePlugin
from tests.frameworks.connections import until_others_are_closed

TABLE = """
    CREATE TABLE public.invoice
        (id INT PRIMARY KEY, later INT REFERENCES public.invoice DEFERRABLE INITIALLY DEFERRED)
"""


async def tenant(request: Request[Any, Any, Any]) -> str:
    return request.headers["x-tenant"]


@post("/invoices/{number:int}")
async def send(
    number: FromPath[int], db_session: NamedDependency[AsyncSession], messages: NamedDependency[AsyncMessages]
) -> dict[str, Any]:
    later = 99 if number == 3 else None  # there is no 99: the commit fails
    await db_session.execute(text("INSERT INTO invoice VALUES (:id, :later)"), {"id": number, "later": later})
    created = await messages.enqueue({"invoice": number}, priority=5)
    if number == 2:
        raise ClientException("refused", status_code=409)
    return {"id": created.id}


@post("/direct")
async def send_directly(queue: NamedDependency[AsyncQueue], messages: NamedDependency[AsyncMessages]) -> bool:
    await queue.enqueue("direct", channel="direct")
    return messages.queue is queue


@post("/sync", sync_to_thread=True)
def send_synchronously(sync_queue: NamedDependency[Queue]) -> None:
    sync_queue.enqueue("sync", channel="direct")


def test_messages_are_part_of_the_transaction(dsn: str, conn: psycopg.Connection) -> None:
    """The second request is refused in the handler, the third one by the commit. The application can start
    again, and leaves no connection open.
    """
    conn.execute(TABLE)
    engine = create_async_engine(make_url(dsn).set(drivername="postgresql+psycopg"))

    async def db_session() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(engine) as session, session.begin():
            yield session

    async def dispose() -> None:
        await engine.dispose()

    app = Litestar(
        [send, send_directly, send_synchronously],
        plugins=[QueuePlugin(dsn, connection="db_session", channel="tenant")],
        dependencies={"db_session": Provide(db_session), "tenant": Provide(tenant)},
        on_shutdown=[dispose],
    )
    acme = {"x-tenant": "acme"}
    for first in (1, 4):
        with TestClient(app, raise_server_exceptions=False) as client:
            numbers = (first, 2, 3) if first == 1 else (first,)
            answers = [client.post(f"/invoices/{number}", headers=acme).status_code for number in numbers]
            assert answers == ([201, 409, 500] if first == 1 else [201])
            assert client.post("/direct", headers=acme).json() is True
            assert client.post("/sync").status_code == 201
    assert conn.execute("SELECT id FROM public.invoice ORDER BY id").fetchall() == [(1,), (4,)]
    until_others_are_closed(conn)
    with Queue(dsn) as queue:
        found = [(message.channel, message.payload) for message in queue.dequeue(10)]
    assert sorted(found, key=str) == [
        ("acme", {"invoice": 1}),
        ("acme", {"invoice": 4}),
        ("direct", "direct"),
        ("direct", "direct"),
        ("direct", "sync"),
        ("direct", "sync"),
    ]


def test_a_worker_beside_the_application(dsn: str) -> None:
    tasks = App(AsyncQueue(dsn))

    @tasks.task(keep_result=60)
    async def add_up(prices: list[int]) -> int:
        return sum(prices)

    @post("/")
    async def total(data: JSONBody[list[int]]) -> Any:
        return await add_up.enqueue_async(data).wait(timeout=20)

    with TestClient(Litestar([total], plugins=[QueuePlugin(tasks.queue, worker=Worker(tasks))])) as client:
        assert client.post("/", json=[7, 8]).json() == 15


def test_wrong_uses(dsn: str) -> None:
    with pytest.raises(InvalidArgument, match="channel is given without connection"):
        QueuePlugin(dsn, channel="tenant")

    def missing_schema() -> AsyncQueue:
        return AsyncQueue(dsn, schema="nowhere")

    with (
        pytest.RaisesGroup(SchemaMissing),
        TestClient(Litestar(plugins=[QueuePlugin(missing_schema)])),
    ):
        pass
