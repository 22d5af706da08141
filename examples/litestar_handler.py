"""A Litestar handler that writes a row and enqueues a message in one transaction, on SQLAlchemy.

python examples/litestar_handler.py postgresql://...
"""

import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from litestar import Litestar, Request, get, post
from litestar.di import NamedDependency, Provide
from litestar.exceptions import ClientException
from litestar.params import FromPath
from litestar.testing import TestClient
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from lonnymq import AsyncQueue, Queue
from lonnymq.litestar import AsyncMessages, QueuePlugin

CREDIT = 1000


class Base(DeclarativeBase):
    pass


class Invoice(Base):
    __tablename__ = "invoice"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    euros: Mapped[int]


async def get_customer(request: Request[Any, Any, Any]) -> str:
    """A real application takes it from the login."""
    return request.headers["X-Customer"]


@post("/invoices/{euros:int}")
async def bill(
    euros: FromPath[int],
    customer: NamedDependency[str],
    session: NamedDependency[AsyncSession],
    messages: NamedDependency[AsyncMessages],
) -> dict[str, int]:
    invoice = Invoice(customer=customer, euros=euros)
    session.add(invoice)
    await session.flush()  # now it has an id
    await messages.enqueue({"invoice": invoice.id})  # in the session's transaction, in the customer's channel
    if euros > CREDIT:  # rolls back the invoice and its message
        raise ClientException("credit refused", status_code=402)
    return {"invoice": invoice.id}


@get("/waiting")
async def waiting(customer: NamedDependency[str], queue: NamedDependency[AsyncQueue]) -> int:
    return (await queue.channel(customer).stats()).waiting


def make_app(dsn: str) -> Litestar:
    engine = create_async_engine(make_url(dsn).set(drivername="postgresql+psycopg"))

    async def get_session() -> AsyncIterator[AsyncSession]:
        async with AsyncSession(engine) as session, session.begin():
            yield session

    async def create_tables() -> None:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)

    return Litestar(
        [bill, waiting],
        plugins=[QueuePlugin(dsn, connection="session", channel="customer")],
        dependencies={"session": Provide(get_session), "customer": Provide(get_customer)},
        on_startup=[create_tables],
        on_shutdown=[engine.dispose],
        logging_config=None,  # this program prints what it does
    )


def main(dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.install()  # once, when you deploy

    # In production a server such as uvicorn runs make_app(dsn); here Litestar's test client calls it.
    with TestClient(make_app(dsn)) as client:
        for euros in (250, 5000):
            answer = client.post(f"/invoices/{euros}", headers={"X-Customer": "acme"})
            left = client.get("/waiting", headers={"X-Customer": "acme"})
            print(answer.status_code, answer.json(), "waiting:", left.json())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"])
