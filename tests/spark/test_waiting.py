"""Waiting and leased messages, read as a table."""

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lonnymq.spark.waiting_reader import split
from tests.spark.sink_calls import Options, write

FUTURE = datetime(2040, 7, 1, 12, tzinfo=UTC)
FUTURE_MS = int(FUTURE.timestamp() * 1000)


def waiting(spark: SparkSession, options: Options, **more: str) -> DataFrame:
    return spark.read.format("lonnymq").options(**options, **more).load()


def read(rows: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows.orderBy("id").selectExpr(*columns).collect()]


@pytest.fixture
def three(conn: psycopg.Connection) -> None:
    """One of each status."""
    conn.execute("SELECT message_create('東京', 'one', p_headers => '{\"k\": 1}', p_dedupe_key => 'key')")
    conn.execute("SELECT dispatch()")
    conn.execute("SELECT message_dequeue(1, 60000, 'me')")
    conn.execute("SELECT message_create('a', '', p_max_attempts => 3)")
    conn.execute("SELECT message_create('a', '\\x00ff', %s)", (FUTURE_MS,))


def test_every_status_and_nothing_is_changed(
    spark: SparkSession, options: Options, conn: psycopg.Connection, three: None
) -> None:
    before = conn.execute("SELECT xmin, * FROM message ORDER BY id").fetchall()
    rows = waiting(spark, options)
    assert read(
        rows, "channel", "status", "content", "headers", "dedupe_key", "consumer", "max_attempts"
    ) == [
        ("東京", "leased", b"one", {"k": "1"}, "key", "me", None),
        ("a", "due", b"", None, None, None, 3),
        ("a", "scheduled", b"\0\xff", None, None, None, None),
    ]
    assert rows.rdd.getNumPartitions() == 1
    assert conn.execute("SELECT xmin, * FROM message ORDER BY id").fetchall() == before


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_are_right_in_any_time_zone(
    spark: SparkSession, options: Options, conn: psycopg.Connection, three: None, zone: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = waiting(spark, options).select("id", "created_at", "lease_end_at", "dequeue_at")
        texts = [
            f.date_format(f.to_utc_timestamp(name, zone), "yyyy-MM-dd HH:mm:ss.SSS")
            for name in rows.columns[1:3]
        ]
        found = [tuple(row) for row in rows.orderBy("id").select(*texts, "dequeue_at").collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    text = "to_char(to_timestamp({} / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')"
    expected = conn.execute(
        f"SELECT {text.format('created_at')}, {text.format('lease_end_at')}, dequeue_at "
        "FROM messages ORDER BY id".encode()
    ).fetchall()
    assert found == expected


@pytest.mark.parametrize("parts", [3, *(pytest.param(few, marks=pytest.mark.long) for few in (2, 50))])
def test_partitions_are_ranges_of_ids(
    spark: SparkSession, options: Options, conn: psycopg.Connection, parts: int
) -> None:
    conn.execute("SELECT message_create('a', int4send(n)) FROM generate_series(1, 20) n")
    conn.execute("DELETE FROM message WHERE id IN (3, 4, 5)")
    rows = waiting(spark, options, minPartitions=str(parts))
    assert 1 < rows.rdd.getNumPartitions() <= parts
    assert read(rows, "id") == [(number,) for number in (1, 2, *range(6, 21))]


@pytest.mark.parametrize("parts", ["1", "4"])
def test_an_empty_queue(spark: SparkSession, options: Options, parts: str) -> None:
    assert waiting(spark, options, minPartitions=parts).collect() == []


def test_without_the_content(spark: SparkSession, options: Options, three: None) -> None:
    rows = waiting(spark, options, includeContent="false")
    assert "content" not in rows.columns
    assert rows.count() == 3


def test_rows_can_be_read_and_written_again(spark: SparkSession, options: Options) -> None:
    made = spark.range(0, 1000, 1, 2).selectExpr(
        "'a' AS channel", "repeat(CAST(id AS STRING), 300) AS content"
    )
    write(made, options)
    write(waiting(spark, options).select("channel", "content"), options)
    found = waiting(spark, options, minPartitions="3").selectExpr("CAST(content AS STRING)")
    assert sorted(found.collect()) == sorted([*made.select("content").collect()] * 2)


def test_large_contents(spark: SparkSession, options: Options, conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_content_max_bytes => 1048576)")
    conn.execute(
        "SELECT message_create('a', convert_to(repeat('x', 1048576), 'UTF8')) FROM generate_series(1, 40)"
    )
    assert read(waiting(spark, options), "length(content)") == [(1_048_576,)] * 40


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"minPartitions": "0"}, "minPartitions is 0"),
        ({"channel": "a"}, "there is no option channel"),
        pytest.param({"schema": "elsewhere"}, "SchemaMissing", marks=pytest.mark.long),
        ({"schema": "elsewhere", "minPartitions": "2"}, "SchemaMissing"),
    ],
)
def test_refusals(spark: SparkSession, options: Options, more: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        waiting(spark, options | more).collect()


def test_a_schema_is_refused(spark: SparkSession, options: Options) -> None:
    with pytest.raises(PySparkException, match="the columns of waiting messages are fixed"):
        spark.read.format("lonnymq").options(**options).schema("id long").load().collect()


@pytest.mark.parametrize(("first", "last", "parts"), [(1, 1, 5), (1, 2, 2), (5, 104, 7), (-3, 3, 3)])
def test_every_id_is_in_one_range(first: int, last: int, parts: int) -> None:
    ranges = list(split(first, last, parts))
    assert len(ranges) <= parts
    for number in range(first - 2, last + 3):
        holders = [
            ids
            for ids in ranges
            if (ids.begin is None or ids.begin <= number) and (ids.end is None or number < ids.end)
        ]
        assert len(holders) == 1, number
