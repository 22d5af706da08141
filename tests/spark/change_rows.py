"""Rows of history and dead letters for tests: how to make them, query them and read them with Spark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from lonnymq.spark.changes.change_source import ChangeSource
from lonnymq.spark.changes.dead_source import DeadSource
from lonnymq.spark.changes.history_source import HistorySource
from lonnymq.spark.changes.policy_source import PolicySource
from lonnymq.spark.changes.stream_reader import StreamReader

Row = tuple[Any, ...]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SOURCES: dict[str, Callable[[Any], ChangeSource]] = {
    "history": HistorySource,
    "dead_letters": DeadSource,
    "policies": PolicySource,
}
TIMES = {"created_at", "first_dequeued_at", "dequeued_at", "finished_at", "dead_at", "at"}
ANY_ROW = """
    INSERT INTO finished
        (id, created_at, dequeue_at, finished_at, attempts, content_bytes, outcome, channel, lane, priority,
        cost)
    SELECT n, 1700000000000 + n, 0, 1700000000000 + n, 1, 0, 'completed', 'channel ' || n %% 7, 'default', 0,
        1
    FROM generate_series(%s::BIGINT, %s::BIGINT) n"""


def finish(conn: psycopg.Connection, first: int, last: int | None = None) -> list[int]:
    """Insert history rows with these ids in one statement, as if these messages had finished."""
    conn.execute(ANY_ROW, (first, last or first))
    return list(range(first, (last or first) + 1))


def shown(conn: psycopg.Connection, view: str, columns: list[str]) -> set[Row]:
    """The rows of a view, in types that can be compared with Spark's rows."""
    selected = ", ".join({"xid": "xid::TEXT::BIGINT"}.get(name, _selected(name)) for name in columns)
    rows = conn.execute(f"SELECT {selected} FROM {view}".encode()).fetchall()
    return {tuple(tuple(value) if isinstance(value, list) else value for value in row) for row in rows}


def _selected(name: str) -> str:
    return f"{name}::TEXT" if name in {"headers", "past_errors"} else name


def read(df: DataFrame) -> list[Row]:
    """The rows of a DataFrame, with times as Unix milliseconds."""
    return as_rows(df.toArrow())


def as_rows(table: pa.Table) -> list[Row]:
    columns = [
        READ_AS.get(name, pa.ChunkedArray.to_pylist)(table.column(name)) for name in table.column_names
    ]
    return list(zip(*columns, strict=True))


def _milliseconds(column: pa.ChunkedArray) -> list[int | None]:
    microseconds = column.cast(pa.int64()).to_pylist()
    assert all(value is None or value % 1000 == 0 for value in microseconds)
    return [None if value is None else value // 1000 for value in microseconds]


def _flat(column: pa.ChunkedArray) -> list[tuple[int, ...] | None]:
    """Past runs as PostgreSQL has them: the numbers of all runs, one after the other."""
    return [
        None if runs is None else tuple(number for run in runs for number in run.values())
        for runs in column.to_pylist()
    ]


READ_AS = {**dict.fromkeys(TIMES, _milliseconds), "past_runs": _flat}


def stream_reader(options: dict[str, str], view: str = "history", **more: str) -> StreamReader:
    source = SOURCES[view](options | more)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    return reader


def batches_of(
    reader: StreamReader, start: dict[str, Any], limit: ReadLimit | None = None
) -> Iterator[tuple[list[Row], dict[str, Any]]]:
    """Read as a stream does until nothing is new: the rows of each batch, and its end."""
    while True:
        end = reader.latestOffset(start, limit or reader.getDefaultReadLimit())
        if end == start:
            return
        yield rows_of(reader, reader.partitions(start, end)), end
        start = end


def rows_of(reader: Any, parts: list[Any]) -> list[Row]:
    found: list[Row] = []
    for part in parts:
        assert isinstance(part, InputPartition)
        batches = list(reader.read(part))
        if batches:
            found += as_rows(pa.Table.from_batches(batches))
    return found


def position(conn: psycopg.Connection) -> dict[str, Any]:
    """The current position of the history, as an offset."""
    row = conn.execute("SELECT snapshot, system_id FROM history_bounds()").fetchone()
    assert row is not None
    return {"snapshot": row[0], "system": row[1]}


def run(df: DataFrame, checkpoint: Path) -> list[list[Row]]:
    """Let a stream read what is there now. Returns the rows of each batch."""
    batches: list[list[Row]] = []
    writer = df.writeStream.foreachBatch(lambda batch, _: batches.append(read(batch)))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120), "the stream did not finish"
    finally:
        query.stop()
    return batches


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        assert before is not None
        spark.conf.set(name, before)
