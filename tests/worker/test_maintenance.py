"""A worker's maintenance of the queue."""

import asyncio

import psycopg
import pytest

from lonnymq import AsyncQueue
from lonnymq.worker import maintenance


def test_one_round_calls_until_everything_is_cleaned_up(
    dsn: str, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(25):
        conn.execute("SELECT message_create('a', '')")
    conn.execute("SELECT dispatch()")
    monkeypatch.setattr(maintenance, "PERIOD_S", 0.01)
    monkeypatch.setattr(maintenance, "ROWS_PER_CALL", 10)
    cleaned: list[int] = []

    async def main() -> None:
        async with AsyncQueue(dsn) as queue:
            maintain = queue.maintain

            async def counted(limit: int) -> int:
                cleaned.append(await maintain(limit))
                if cleaned[-1] < limit:
                    monkeypatch.setattr(maintenance, "PERIOD_S", 60)
                return cleaned[-1]

            monkeypatch.setattr(queue, "maintain", counted)
            task = asyncio.create_task(maintenance.maintain(queue))
            async with asyncio.timeout(20):
                while not cleaned or cleaned[-1] >= 10:  # noqa: ASYNC110 - the database changes it
                    await asyncio.sleep(0.01)
            task.cancel()

    asyncio.run(main())
    assert len(cleaned) >= 3
    row = conn.execute("SELECT COUNT(*) FROM notice").fetchone()
    assert row == (0,)
