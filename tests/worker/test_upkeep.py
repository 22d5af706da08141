"""A worker keeps the queue clean, however much there is to clean."""

import asyncio

import psycopg
import pytest

from lonnymq import AsyncQueue
from lonnymq.worker import maintenance


def test_all_that_is_dispatched_goes_in_one_round(
    dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(25):
        conn.execute("SELECT message_create('a', '')")
    conn.execute("SELECT dispatch()")
    monkeypatch.setattr(maintenance, "PERIOD", 0.01)
    monkeypatch.setattr(maintenance, "PIECE", 10)
    asked: list[int] = []

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            maintain = queue.maintain

            async def counted(limit: int) -> int:
                asked.append(await maintain(limit))
                if asked[-1] < limit:
                    monkeypatch.setattr(maintenance, "PERIOD", 60)
                return asked[-1]

            monkeypatch.setattr(queue, "maintain", counted)
            task = asyncio.create_task(maintenance.maintain(queue))
            async with asyncio.timeout(20):
                while not asked or asked[-1] >= 10:  # noqa: ASYNC110 - it is the database that changes
                    await asyncio.sleep(0.01)
            task.cancel()

    asyncio.run(main())
    assert len(asked) >= 3
    row = conn.execute("SELECT COUNT(*) FROM notice").fetchone()
    assert row == (0,)
