"""`lonnymq_policies` on Spark: how the policies changed, each row once."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from lonnymq.spark.changes.range_reader import RowsLost
from lonnymq.spark.unwrap_errors import unwrap_spark_errors
from tests.clock import FakeClock
from tests.database import Connect
from tests.spark.change_rows import PUSHDOWN, Row, read, run, setting, shown

DAY = 86_400_000
SCHEMA = (
    "xid bigint, id bigint, at timestamp, scope string, channel string, max_concurrency int,"
    " release_interval_us bigint, burst int, paused boolean, max_size int, weight double, is_deleted boolean"
)


def policies(spark: SparkSession, options: dict[str, str], **more: Any) -> DataFrame:
    return spark.read.format("lonnymq_policies").options(**options).options(**more).load()


def stream(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.readStream.format("lonnymq_policies").options(**options).load()


def limits(rows: list[Row]) -> list[int | None]:
    return [row[5] for row in sorted(rows, key=lambda row: row[1]) if row[3] == "channel"]


def test_spark_and_postgresql_have_the_same_rows(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection
) -> None:
    conn.execute("SELECT channel_set('grüße 🐘', 3, 50000, 2, TRUE, 9, 0.125)")
    conn.execute("SELECT channel_set('b', p_inherit => '{burst}')")
    conn.execute("SELECT queue_set(p_max_concurrency => 7, p_channel_max_concurrency => 5)")
    conn.execute("SELECT channel_delete('b')")
    df = policies(spark, options, minPartitions=2)
    rows = read(df)
    assert set(rows) == shown(conn, "policies", df.columns)
    assert len(rows) == 2 + 5
    assert df.schema.simpleString() == f"struct<{SCHEMA.replace(', ', ',').replace(' ', ':')}>"
    with setting(spark, PUSHDOWN, "true"):
        found = df.where("scope = 'channel' AND channel IS NOT NULL AND at > timestamp'2020-01-01 00:00:00'")
        assert {row.channel for row in found.collect()} == {"grüße 🐘", "b"}
        assert df.where("channel IS NULL").count() == 4


def test_a_stream_has_each_row_once_and_notices_what_was_dropped(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, connect: Connect, tmp_path: Path
) -> None:
    clock = FakeClock(conn, 1_700_000_000_000)
    assert [len(rows) for rows in run(stream(spark, options), tmp_path)] == [2]
    slow = connect(autocommit=False)
    slow.execute("SELECT channel_set('a', 1)")
    conn.execute("SELECT channel_set('b', 2)")
    assert [limits(rows) for rows in run(stream(spark, options), tmp_path)] == [[2]]
    slow.commit()
    assert [limits(rows) for rows in run(stream(spark, options), tmp_path)] == [[1]]
    conn.execute("SELECT queue_set(p_history_keep_ms => %s)", (DAY,))
    for limit in (3, 4):
        conn.execute("SELECT channel_set('a', %s)", (limit,))
        clock.advance(2 * DAY)
    conn.execute("SELECT maintain()")
    with pytest.raises(RowsLost, match="rows may be lost"), unwrap_spark_errors():
        run(stream(spark, options), tmp_path)
    assert limits(read(policies(spark, options))) == [2, 4]
