"""Streams that consume, and queries for what became of the messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Options = dict[str, str]
Batch = tuple[int, list[Any]]
TIMEOUT_S = 240
NOW = {"availableNow": True}
ALWAYS = {"processingTime": "0 seconds"}


def until(is_true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.02)


def create(conn: psycopg.Connection, count: int, channels: int = 1, name: str = "c") -> None:
    """Create messages whose contents are numbers."""
    conn.execute(
        "SELECT message_create_many(array_agg(%s || (n %% %s)), array_agg(convert_to(n::TEXT, 'UTF8')))"
        " FROM generate_series(0, %s - 1) n",
        (name, channels, count),
    )


def one(conn: psycopg.Connection, query: str) -> Any:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def completed(conn: psycopg.Connection) -> int:
    return int(one(conn, "SELECT COUNT(*) FROM history WHERE outcome = 'completed'"))


class Stop:
    """A point where the first task stops, with the rows it has read, until the test resumes it."""

    def __init__(self, folder: Path) -> None:
        self.armed, self.reached, self.go = (folder / name for name in ("armed", "reached", "go"))
        self.armed.touch()

    def until_reached(self) -> None:
        until(self.reached.exists, "a task to stop")

    def resume(self) -> None:
        self.go.touch()

    def stopping(self, rows: DataFrame) -> DataFrame:
        armed, reached, go = str(self.armed), str(self.reached), str(self.go)

        # A local function is pickled by value; Spark's processes cannot import this module.
        def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import time
            from pathlib import Path

            for batch in batches:
                if Path(armed).exists():
                    Path(armed).unlink()
                    Path(reached).touch()
                    while not Path(go).exists():
                        time.sleep(0.02)
                yield batch

        return rows.mapInArrow(pass_on, rows.schema)


class Streams:
    """The streams of one test, and the rows of their batches. They are stopped after the test."""

    def __init__(self, spark: SparkSession, options: Options, folder: Path) -> None:
        self.spark = spark
        self.options = options
        self.folder = folder
        self.batches: list[Batch] = []
        self.queries: list[StreamingQuery] = []

    def read(self, **more: str) -> DataFrame:
        options = self.options | {"consumer": "etl"} | more
        return self.spark.readStream.format("lonnymq").options(**options).load()

    def start(
        self,
        during: Callable[[list[Any]], None] = lambda _: None,
        checkpoint: str = "checkpoint",
        trigger: dict[str, Any] = ALWAYS,
        **more: str,
    ) -> StreamingQuery:
        """Start a stream that collects its batches for the test."""

        def batch(rows: DataFrame, number: int) -> None:
            taken = rows.collect()
            during(taken)
            self.batches.append((number, taken))

        return self.started(self.read(**more).writeStream.foreachBatch(batch), checkpoint, trigger)

    def run(self, **more: Any) -> None:
        """Consume everything that is there now."""
        await_end(self.start(trigger=NOW, **more))

    def move(self, stop: Stop | None = None, checkpoint: str = "moving", **more: str) -> StreamingQuery:
        """Start a stream that moves what is there into the channel `out`, and completes it in the same
        transactions.
        """
        rows = self.read(**({"minPartitions": "1", "leaseSeconds": "600"} | more))
        if stop is not None:
            rows = stop.stopping(rows)
        moved = rows.selectExpr("'out' AS channel", "content", "claim")
        writing = moved.writeStream.format("lonnymq").options(**self.options, complete="true")
        return self.started(writing, checkpoint, NOW)

    def rows(self) -> list[Any]:
        return [row for _, rows in self.batches for row in rows]

    def ids(self) -> list[int]:
        return [row.id for row in self.rows()]

    def stop(self) -> None:
        for query in self.queries:
            query.stop()

    def started(self, writing: Any, checkpoint: str, trigger: dict[str, Any]) -> StreamingQuery:
        folder = str(self.folder / checkpoint)
        query: StreamingQuery = writing.option("checkpointLocation", folder).trigger(**trigger).start()
        self.queries.append(query)
        return query


def await_end(query: StreamingQuery) -> None:
    assert query.awaitTermination(TIMEOUT_S), "the stream did not finish"


def moved(conn: psycopg.Connection) -> list[int]:
    """The contents of the channel `out`, which nobody consumes."""
    rows = conn.execute(
        "SELECT convert_from(content, 'UTF8')::INT FROM message WHERE channel = 'out' ORDER BY 1"
    )
    return [number for (number,) in rows]
