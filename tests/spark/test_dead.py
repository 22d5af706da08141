"""`lonnymq_dead` on Spark: a row for each time that a message became a dead letter, each row once."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, TimestampType

from lonnymq.errors import PositionUnknown
from lonnymq.spark.unwrap_errors import unwrap_spark_errors
from tests.database import Connect
from tests.invariants import dequeue, dispatch
from tests.spark.change_rows import PUSHDOWN, Row, position, read, run, setting, shown

LARGE = bytes(range(256)) * 4096


def create(conn: psycopg.Connection, channel: str, content: bytes = b"x", headers: str | None = None) -> int:
    query = "SELECT id FROM message_create(%s, %s, p_headers => %s, p_max_attempts => 1)"
    [(made,)] = conn.execute(query, (channel, content, headers)).fetchall()
    dispatch(conn)
    return int(made)


def kill(conn: psycopg.Connection, error: str = "broken") -> None:
    """Let all waiting messages fail, in the connection's transaction if it has one."""
    for message in dequeue(conn, 100, 60_000, "wörker")[0]:
        query = "SELECT message_retry(%s, %s, p_state => %s, p_error => %s)"
        conn.execute(query, (message.id, message.token, b"\x00state", error))


def dead(spark: SparkSession, options: dict[str, str], **more: Any) -> DataFrame:
    return spark.read.format("lonnymq_dead").options(**options).options(**more).load()


def stream(spark: SparkSession, options: dict[str, str], **more: Any) -> DataFrame:
    return spark.readStream.format("lonnymq_dead").options(**options).options(**more).load()


def ids(rows: list[Row]) -> list[int]:
    return sorted(row[1] for row in rows)


def test_spark_and_postgresql_have_the_same_rows(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection
) -> None:
    create(conn, "plain")
    create(conn, "empty", b"")
    create(conn, "grüße 🐘 '\\", LARGE, '{"naïve": ["🐘", null]}')
    kill(conn, "it's\nbroken")
    [again] = [create(conn, "twice")]
    kill(conn)
    conn.execute("SELECT dead_retry(ARRAY[%s]::BIGINT[])", (again,))
    dispatch(conn)
    kill(conn, "once more")
    df = dead(spark, options, minPartitions=2, headersFormat="json")
    rows = read(df)
    assert set(rows) == shown(conn, "dead_letters", df.columns)
    assert len(rows) == 4
    assert df.where("past_errors IS NOT NULL").count() == 1
    types = {field.name: field.dataType for field in df.schema}
    assert types == {
        **dict.fromkeys(("xid", "id", "dequeue_at"), LongType()),
        **dict.fromkeys(("attempts", "max_attempts", "priority", "cost"), IntegerType()),
        **dict.fromkeys(("created_at", "first_dequeued_at", "dequeued_at", "dead_at"), TimestampType()),
        **dict.fromkeys(
            ("channel", "consumer", "error", "past_errors", "dedupe_key", "lane", "headers"), StringType()
        ),
        **dict.fromkeys(("state", "content"), BinaryType()),
    }
    without = dead(spark, options, includeContent="false", headersFormat="json")
    assert set(without.columns) == types.keys() - {"content"}
    assert set(read(without)) == shown(conn, "dead_letters", without.columns)


def test_a_stream_has_each_row_once_in_any_order_of_commits(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, connect: Connect, tmp_path: Path
) -> None:
    assert run(stream(spark, options), tmp_path) == [[]]
    slow = connect(autocommit=False)
    late = create(conn, "a")
    kill(slow)
    quick = create(conn, "b")
    kill(conn)
    assert [ids(rows) for rows in run(stream(spark, options), tmp_path)] == [[quick]]
    slow.commit()
    assert [ids(rows) for rows in run(stream(spark, options), tmp_path)] == [[late]]
    conn.execute("SELECT dead_retry(ARRAY[%s]::BIGINT[])", (quick,))
    dispatch(conn)
    assert run(stream(spark, options), tmp_path) == []
    kill(conn)
    gone = create(conn, "a")
    kill(conn)
    conn.execute("SELECT dead_discard(ARRAY[%s]::BIGINT[])", (gone,))
    conn.execute("SELECT maintain()")
    assert [ids(rows) for rows in run(stream(spark, options), tmp_path)] == [[quick]], "but not the discarded"


def test_filters_are_pushed_down_when_spark_allows_it(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection
) -> None:
    create(conn, "a")
    create(conn, "b")
    kill(conn)
    found = {}
    for is_on in ("false", "true"):
        with setting(spark, PUSHDOWN, is_on):
            df = dead(spark, options).where("channel = 'a' AND dead_at > timestamp'2020-01-01 00:00:00'")
            found[is_on] = read(df)
            is_left_to_spark = "Filter (" in df._jdf.queryExecution().executedPlan().toString()
        assert is_left_to_spark == (is_on == "false")
    assert len(found["true"]) == 1
    assert found["true"] == found["false"]


def test_a_position_of_another_cluster_is_refused(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection
) -> None:
    here = position(conn)
    wrong = json.dumps(here | {"system": here["system"] + 1})
    with pytest.raises(PositionUnknown, match="is of another cluster"), unwrap_spark_errors():
        read(dead(spark, options, startingOffsets=wrong))
