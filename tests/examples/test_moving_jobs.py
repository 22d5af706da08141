"""The functions of docs/from_procrastinate.md that move jobs, while a worker of the old queue runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import procrastinate
import psycopg
from pgqueuer import PgQueuer, Queries
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode
from procrastinate.types import JSONDict
from psycopg.rows import dict_row

from lonnymq import App, NewMessage, Queue, Worker
from tests.examples.page import CHECKOUT, blocks

PAGE = CHECKOUT / "docs" / "from_procrastinate.md"
JOBS = 200


def function_of_page(name: str, dsn: str, queue: Queue) -> Callable[[int], int]:
    message_of, code = (
        block.code
        for block in blocks(PAGE)
        if "def message_of(" in block.code or f"def {name}(" in block.code
    )
    app = App(queue)
    app.task(name="unused")(lambda: None)
    names: dict[str, Any] = {"dsn": dsn, "queue": queue, "app": app, "Worker": Worker, "Any": Any}
    names |= {"psycopg": psycopg, "NewMessage": NewMessage, "dict_row": dict_row}
    exec(message_of + code.partition("\n\n\nprint(")[0], names)  # noqa: S102
    move: Callable[[int], int] = names[name]
    return move


async def run_and_move(
    run_old_worker: Awaitable[Any], has_begun: asyncio.Event, move: Callable[[int], int]
) -> None:
    async def move_all() -> None:
        await has_begun.wait()
        while await asyncio.to_thread(move, 3):
            pass

    await asyncio.gather(run_old_worker, move_all())


def check_each_is_in_one_place(run: list[int], queue: Queue) -> None:
    moved = [message.payload["number"] for message in queue.dequeue(2 * JOBS)]
    assert run
    assert moved
    assert sorted(run + moved) == list(range(JOBS))


def test_jobs_of_procrastinate(dsn: str) -> None:
    run: list[int] = []

    async def main(move: Callable[[int], int]) -> None:
        has_begun = asyncio.Event()
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))

        @app.task(name="count")
        async def count(number: int) -> None:
            run.append(number)
            has_begun.set()

        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            calls: list[JSONDict] = [{"number": number} for number in range(JOBS)]
            await count.batch_defer_async(*calls)
            await run_and_move(
                app.run_worker_async(wait=False, install_signal_handlers=False), has_begun, move
            )

    with Queue(dsn) as queue:
        asyncio.run(main(function_of_page("move_procrastinate", dsn, queue)))
        check_each_is_in_one_place(run, queue)


def test_jobs_of_pgqueuer(dsn: str) -> None:
    run: list[int] = []

    async def main(move: Callable[[int], int]) -> None:
        has_begun = asyncio.Event()
        connection = await asyncpg.connect(dsn)
        pgq, queries = (
            PgQueuer.from_asyncpg_connection(connection),
            Queries.from_asyncpg_connection(connection),
        )
        await queries.install()

        @pgq.entrypoint("count")
        async def count(job: Job) -> None:
            run.append(int((job.payload or b"")[len('{"number": ') : -1]))
            has_begun.set()

        payloads: list[bytes | None] = [b'{"number": %d}' % number for number in range(JOBS)]
        await queries.enqueue(["count"] * JOBS, payloads, [0] * JOBS)
        await run_and_move(pgq.run(batch_size=1, mode=QueueExecutionMode.drain), has_begun, move)
        await connection.close()

    with Queue(dsn) as queue:
        asyncio.run(main(function_of_page("move_pgqueuer", dsn, queue)))
        check_each_is_in_one_place(run, queue)
