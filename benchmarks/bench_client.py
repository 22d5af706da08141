"""./run bench client: compares bulk loads through the Python client with a plain COPY, alternating.

The COPY fills a table with the same columns and indexes as the table of messages. All get the same prepared
bytes, except for the row named JSON: there a dict is encoded as JSON, with a content-type header.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.bench_server import bench_server
from lonnymq import AsyncQueue, Queue
from lonnymq.install import install

CHANNEL = "load"
RAW = "COPY into a similar table"


def contents(messages: int) -> Iterator[bytes]:
    return (b'{"row":%d,"text":"some forty bytes of text that says little"}' % n for n in range(messages))


def raw_copy(dsn: str, messages: int) -> None:
    with psycopg.connect(dsn) as conn, conn.cursor() as cursor:
        into = "COPY raw (id, channel, dequeue_at, created_at, content) FROM STDIN (FORMAT BINARY)"
        with cursor.copy(into) as copy:
            copy.set_types(["bigint", "text", "bigint", "bigint", "bytea"])
            for number, content in enumerate(contents(messages)):
                copy.write_row((number, CHANNEL, 1, 1, content))


def bytes_many(dsn: str, messages: int) -> None:
    with Queue(dsn) as queue:
        queue.enqueue_many(contents(messages), channel=CHANNEL)


def bytes_many_async(dsn: str, messages: int) -> None:
    async def load() -> None:
        async with AsyncQueue(dsn) as queue:
            await queue.enqueue_many(contents(messages), channel=CHANNEL)

    asyncio.run(load())


def json_many(dsn: str, messages: int) -> None:
    text = "some forty bytes of text that says little"
    with Queue(dsn) as queue:
        queue.enqueue_many(({"row": n, "text": text} for n in range(messages)), channel=CHANNEL)


def staged(dsn: str, messages: int) -> None:
    batch = uuid4()
    with psycopg.connect(dsn) as conn, conn.cursor() as cursor:
        into = "COPY lonnymq.staging (batch, ord, channel, content) FROM STDIN (FORMAT BINARY)"
        with cursor.copy(into) as copy:
            copy.set_types(["uuid", "bigint", "text", "bytea"])
            for number, content in enumerate(contents(messages)):
                copy.write_row((batch, number, CHANNEL, content))
        cursor.execute("SELECT lonnymq.staging_publish(%s)", (batch,))


LOADS: dict[str, Callable[[str, int], None]] = {
    RAW: raw_copy,
    "enqueue_many, bytes": bytes_many,
    "enqueue_many, bytes, async": bytes_many_async,
    "enqueue_many, JSON": json_many,
    "COPY into staging, staging_publish": staged,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run bench client", description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000, help="messages per load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print every sample to stdout as JSON")
    options = parser.parse_args(arguments)
    if options.messages < 1 or options.rounds < 1:
        parser.error("--messages and --rounds take 1 or more")
    rates = measure(options.messages, options.rounds)
    if options.json:
        json.dump(rates, sys.stdout, indent=1)
        return 0
    table = Table("", "messages/s", f"/ {RAW}")
    for method, samples in rates.items():
        ratio = statistics.median(a / b for a, b in zip(samples, rates[RAW], strict=True))
        table.add_row(method, f"{statistics.median(samples):,.0f}", f"{ratio:.2f}")
    Console().print(table)
    return 0


def measure(messages: int, rounds: int) -> dict[str, list[float]]:
    """Returns messages per second, one value per round."""
    rates: dict[str, list[float]] = {method: [] for method in LOADS}
    console = Console(stderr=True)
    with bench_server() as server, psycopg.connect(server.postgres.dsn(), autocommit=True) as conn:
        install(conn)
        conn.execute("CREATE TABLE raw (LIKE lonnymq.message INCLUDING ALL)")
        for turn in range(rounds):
            for method, load in LOADS.items() if turn % 2 == 0 else reversed(LOADS.items()):
                conn.execute("TRUNCATE raw, lonnymq.message, lonnymq.notice")
                conn.execute("CHECKPOINT")
                start = time.perf_counter()
                load(server.postgres.dsn(), messages)
                rates[method].append(messages / (time.perf_counter() - start))
                console.print(f"[{turn + 1}/{rounds}] {method}: {rates[method][-1]:,.0f}/s", highlight=False)
    return rates
