"""A FastAPI handler that writes a row and enqueues a message in one transaction, on an asyncpg pool.

python examples/fastapi_handler.py postgresql://...
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import asyncpg
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel

from lonnymq import Queue
from lonnymq.fastapi import AsyncMessages, CurrentQueue, messages_in, queue_lifespan

TABLES = """
    CREATE TABLE IF NOT EXISTS stock (article TEXT PRIMARY KEY, pieces INT NOT NULL);
    CREATE TABLE IF NOT EXISTS purchase (id BIGINT GENERATED ALWAYS AS IDENTITY, article TEXT, pieces INT);
    INSERT INTO stock VALUES ('lamp', 3) ON CONFLICT (article) DO UPDATE SET pieces = 3;
"""


class Purchase(BaseModel):
    customer: str
    article: str
    pieces: int


async def get_connection(request: Request) -> AsyncIterator[asyncpg.Connection]:
    async with request.state.pool.acquire() as conn, conn.transaction():
        yield conn


# With scope="function", FastAPI commits before it sends the answer.
Connection = Annotated[asyncpg.Connection, Depends(get_connection, scope="function")]
Messages = Annotated[AsyncMessages, messages_in(Connection)]


def make_app(dsn: str) -> FastAPI:
    @asynccontextmanager
    async def database(_app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        async with asyncpg.create_pool(dsn) as pool:
            await pool.execute(TABLES)
            yield {"pool": pool}

    app = FastAPI(lifespan=queue_lifespan(dsn, around=database))

    @app.post("/purchases", status_code=201)
    async def buy(purchase: Purchase, conn: Connection, messages: Messages) -> dict[str, int]:
        number = await conn.fetchval(
            "INSERT INTO purchase (article, pieces) VALUES ($1, $2) RETURNING id",
            purchase.article,
            purchase.pieces,
        )
        await messages.enqueue({"ship": number}, channel=purchase.customer)
        left = await conn.fetchval(
            "UPDATE stock SET pieces = pieces - $2 WHERE article = $1 AND pieces >= $2 RETURNING pieces",
            purchase.article,
            purchase.pieces,
        )
        if left is None:  # rolls back the purchase and its message
            raise HTTPException(409, f"not enough of {purchase.article} left")
        return {"purchase": number, "left": left}

    @app.get("/waiting/{customer}")
    async def waiting(customer: str, queue: CurrentQueue) -> int:
        return (await queue.channel(customer).stats()).waiting

    return app


def main(dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.install()  # once, when you deploy

    # In production a server such as uvicorn runs make_app(dsn); here FastAPI's test client calls it.
    with TestClient(make_app(dsn)) as client:
        for pieces in (2, 2):
            answer = client.post("/purchases", json={"customer": "acme", "article": "lamp", "pieces": pieces})
            print(answer.status_code, answer.json(), "waiting:", client.get("/waiting/acme").json())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"])
