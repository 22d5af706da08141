"""A stream on Spark with filters, limits and typed content; the progress that it reports; its triggers."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from lonnymq.spark.content.ddl import parse_struct
from tests.invariants import dequeue, dispatch
from tests.spark.test_typed_content import DDL

ORDERS = [
    ("acme", b'{"id": 1, "tags": {"new": 5}}'),
    ("acme", b"{"),
    ("other", b"{}"),
    ("acme", b'{"id": 4}'),
]


@pytest.fixture
def history(spark: SparkSession, options: dict[str, str], conn: psycopg.Connection) -> DataFrame:
    """A stream of four orders, of which one is of another channel, and one is not JSON."""
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    for channel, content in ORDERS:
        conn.execute("SELECT message_create(%s, %s)", (channel, content))
        dispatch(conn)
        [message] = dequeue(conn, 1, 60_000)[0]
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    chosen = {"channelPattern": "ac.*", "maxOffsetsPerTrigger": "1"}
    typed = {"contentFormat": "json", "contentSchema": "id INT, tags MAP<STRING, BIGINT>"}
    return spark.readStream.format("lonnymq_history").options(**options, **chosen, **typed).load()


def test_filters_typed_contents_and_the_backlog(
    spark: SparkSession, options: dict[str, str], history: DataFrame, tmp_path: Path
) -> None:
    batches: list[list[Any]] = []
    chosen = history.select("content.id", "content.tags", "content_error", "corrupt_content")
    writer = chosen.writeStream.foreachBatch(lambda rows, _: batches.append(rows.collect()))
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert [
        [(row.id, row.tags, bytes(row.corrupt_content or b"")) for row in batch] for batch in batches
    ] == [
        [(1, {"new": 5}, b"")],
        [(None, None, b"{")],
        [(4, None, b"")],
    ]
    assert batches[1][0].content_error.startswith("the content is not JSON")
    reported = [json.loads(progress["sources"][0]["latestOffset"]) for progress in query.recentProgress]
    assert [latest["rows_behind"] for latest in reported][:3] == [2, 1, 0]
    strict = {"contentFormat": "json", "contentSchema": "id INT", "contentMode": "failfast"}
    table = spark.read.format("lonnymq_history").options(**options, **strict).load()
    with pytest.raises(PySparkException, match=r"the content of message \d+ does not have the schema"):
        table.collect()


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ({"continuous": "1 second"}, "Data source lonnymq_history does not support continuous processing"),
        ({"realTime": "1 minute"}, "is not supported in Real-time Mode"),
    ],
)
def test_triggers_that_are_not_supported_say_so(
    history: DataFrame, tmp_path: Path, trigger: dict[str, Any], said: str
) -> None:
    writer = history.writeStream.format("console").option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match=said):
        writer.outputMode("update").trigger(**trigger).start().awaitTermination(60)


def test_schemas_are_parsed_as_spark_does(spark: SparkSession) -> None:
    for text in (
        DDL,
        "struct<a: array<map<string, int>>, `b``c` numeric(5)>",
        "a real, b dec, c LONG, d timestamp_ltz",
    ):
        expected = DataType.fromDDL(text)
        assert parse_struct(text).simpleString() == expected.simpleString()
