"""The program that real `taskiq worker` processes run: it writes down what it does."""

import asyncio
import os
from typing import Annotated

import psycopg
from taskiq import Context, TaskiqDepends

from lonnymq.taskiq import LonnyMQBroker, LonnyMQResultBackend

DSN = os.environ["SHOP_DSN"]
broker = LonnyMQBroker(DSN, lease=2)
broker = broker.with_result_backend(LonnyMQResultBackend(broker))


def note(channel: str, n: int) -> int:
    """Returns how often this was noted."""
    with psycopg.connect(DSN) as conn:
        conn.execute("INSERT INTO run (channel, n) VALUES (%s, %s)", (channel, n))
        row = conn.execute("SELECT COUNT(*) FROM run WHERE channel = %s AND n = %s", (channel, n)).fetchone()
    return row[0] if row else 0


@broker.task
def work(n: int, here: Annotated[Context, TaskiqDepends()]) -> int:
    note(here.message.labels["channel"], n)
    return n


@broker.task
async def hang_once(n: int) -> int:
    if note("hangs", n) == 1:
        await asyncio.sleep(3600)
    return n
