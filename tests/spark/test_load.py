"""Loading files into channels."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from lonnymq.errors import ChannelFull, InvalidArgument
from lonnymq.spark.load_files import load
from lonnymq.spark.sink.publication import Publication
from lonnymq.spark.sink.row_batch import RowRefused
from lonnymq.spark.unwrap_errors import unwrap_spark_errors

ROWS = [
    {"tenant": "acme", "order": 1, "total": 2.5},
    {"tenant": "zoë", "order": 2, "total": None},
]


def write(spark: SparkSession, path: Path, kind: str) -> str:
    """Write the rows as a file of that format."""
    if kind == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    elif kind == "csv":
        path.write_text("tenant,order,total\nacme,1,2.5\nzoë,2,\n", encoding="utf-8")
    else:
        frame = spark.createDataFrame(
            [tuple(row.values()) for row in ROWS], "tenant string, order long, total double"
        )
        if kind == "delta":
            write_deltalake(str(path), frame.toArrow())
        else:
            frame.write.parquet(str(path))
    return str(path)


def waiting(conn: psycopg.Connection) -> dict[str, Any]:
    found = conn.execute("SELECT channel, convert_from(content, 'UTF8') FROM message").fetchall()
    return {channel: json.loads(content) for channel, content in found}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("csv", "orders.csv"), ("delta", "lake")),
        *(
            pytest.param(*few, marks=pytest.mark.long)
            for few in (("json", "orders.jsonl"), ("parquet", "orders"))
        ),
    ],
)
def test_without_a_content_column_all_columns_are_the_content(
    spark: SparkSession,
    conn: psycopg.Connection,
    options: dict[str, str],
    tmp_path: Path,
    kind: str,
    name: str,
) -> None:
    path = write(spark, tmp_path / name, kind)
    given = kind if kind == "delta" else None
    assert load(spark, path, options, file_format=given, channel_column="tenant").created == 2
    found = waiting(conn)
    assert found.keys() == {"acme", "zoë"}
    expected = {"order": "1", "total": "2.5"} if kind == "csv" else {"order": 1, "total": 2.5}
    assert found["acme"] == expected
    assert found["zoë"].get("total") is None


def test_a_named_load_is_done_once(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    path = write(spark, tmp_path / "orders.jsonl", "json")
    first, again = (load(spark, path, options, channel="all", once="orders of today") for _ in range(2))
    assert first == Publication(created=2, duplicates=0, refused=0, is_repeat=False)
    assert again == Publication(created=2, duplicates=0, refused=0, is_repeat=True)
    assert conn.execute("SELECT COUNT(*) FROM message WHERE channel = 'all'").fetchone() == (2,)
    assert load(spark, path, options, channel="all") == first
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (4,)
    jobs = conn.execute("SELECT COUNT(*), COUNT(*) FILTER (WHERE is_lasting) FROM ledger").fetchone()
    assert jobs == (2, 1), "a job without a name is forgotten after a day"


def test_columns_of_messages_are_not_content(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text(
        '{"channel": "a", "content": "hello", "dedupe_key": "k", "dequeue_at": -5,'
        ' "lane": "slow", "priority": 7, "cost": 3}\n'
    )
    assert load(spark, str(path), options).created == 1
    row = conn.execute(
        "SELECT channel, content, dedupe_key, dequeue_at, lane, priority, cost FROM message"
    ).fetchone()
    assert row == ("a", b"hello", "k", -5, "slow", 7, 3)
    assert load(spark, str(path), options) == Publication(created=0, duplicates=1, refused=0, is_repeat=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "there is no column 'channel'; the columns are order, tenant, total"),
        ({"channel": "a", "content_column": "body"}, "there is no column 'body'"),
        ({"file_format": "xml"}, "use one of parquet, csv, json, delta"),
    ],
)
def test_refusals(
    spark: SparkSession, options: dict[str, str], tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    path = write(spark, tmp_path / "orders.jsonl", "json")
    with pytest.raises(InvalidArgument, match=said):
        load(spark, path, options, **arguments)


def test_a_row_without_a_channel_stops_the_load(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text('{"channel": "a", "content": "x"}\n{"channel": null, "content": "y"}\n')
    with pytest.raises(RowRefused, match="row 2 of its partition"), unwrap_spark_errors():
        load(spark, str(path), options)
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)


def test_a_full_channel_stops_the_load(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    path = write(spark, tmp_path / "orders.jsonl", "json")
    conn.execute("SELECT channel_set('all', p_max_size => 1)")
    with pytest.raises(ChannelFull, match=r"channel 'all' is full.*--drop-full"), unwrap_spark_errors():
        load(spark, path, options, channel="all")
    assert waiting(conn) == {}
    assert load(spark, path, options, channel="all", drop_full=True) == Publication(
        created=1, duplicates=0, refused=1, is_repeat=False
    )
    assert len(waiting(conn)) == 1
