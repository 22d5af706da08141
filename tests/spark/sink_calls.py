"""Writing DataFrames into the queue, and queries for what is there afterwards."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

Options = dict[str, str]
TIMEOUT_S = 120


def write(rows: DataFrame, options: Options, **more: str) -> None:
    rows.write.format("lonnymq").options(**options, **more).mode("append").save()


def start(rows: DataFrame, options: Options, checkpoint: Path, **more: str) -> StreamingQuery:
    stream = rows.writeStream.format("lonnymq").options(**options, **more)
    return stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def run(rows: DataFrame, options: Options, checkpoint: Path, **more: str) -> StreamingQuery:
    """Run a stream until it has written everything that is there."""
    query = start(rows, options, checkpoint, **more)
    assert query.awaitTermination(TIMEOUT_S), "the stream did not finish"
    return query


def messages(conn: psycopg.Connection, columns: str = "channel, content") -> list[tuple[Any, ...]]:
    return conn.execute(f"SELECT {columns} FROM message ORDER BY id".encode()).fetchall()


def count(conn: psycopg.Connection, table: str = "message") -> int:
    [(number,)] = conn.execute(f"SELECT COUNT(*) FROM {table}".encode()).fetchall()
    return int(number)


def count_staged(conn: psycopg.Connection, schema: str = "lonnymq") -> int:
    [(rows,)] = conn.execute(
        f"SELECT COALESCE(SUM(cardinality(channel)), 0) FROM {schema}.staging_chunk".encode()
    ).fetchall()
    return int(rows)


def counts(conn: psycopg.Connection) -> tuple[int, int, int]:
    """The numbers of messages, of staged rows and of ledger entries."""
    return count(conn), count_staged(conn), count(conn, "ledger")


def until(is_true: Callable[[], object], what: str, running: Future[Any] | None = None) -> None:
    """Wait for a condition; fail if `running` finishes before."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert running is None or not running.done(), running.exception() or f"it finished before: {what}"
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.02)
