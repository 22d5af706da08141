"""`lonnymq_history` on Spark: the same rows as in PostgreSQL, as a table and as a stream."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lonnymq.errors import InvalidArgument, PositionUnknown
from lonnymq.spark.changes.range_reader import RowsLost
from lonnymq.spark.changes.snapshots import Snapshot
from lonnymq.spark.source_options import InvalidOption
from lonnymq.spark.unwrap_errors import unwrap_spark_errors
from tests.invariants import dequeue, dispatch
from tests.spark.change_rows import PUSHDOWN, Row, finish, position, read, run, setting, shown

ZONE = "spark.sql.session.timeZone"
RUN = StructType([StructField(name, LongType()) for name in ("due_at", "dequeued_at", "ended_at")])
LARGE = bytes(range(256)) * 4096
MESSAGES: list[tuple[str, bytes, dict[str, Any]]] = [
    ("plain", b"content", {}),
    ("empty", b"", {}),
    ("large", LARGE, {}),
    ("no utf-8", b"\xff\x00\xfe", {}),
    (
        "grüße, 世界 🐘 'quoted' \\ %",
        b"x",
        {"headers": '{"naïve": "🐘", "n": 1.50, "deep": [{}, null]}'},
    ),
    ("headers", b"x", {"headers": "{}"}),
    ("key", b"x", {"dedupe_key": "ключ"}),
    ("urgent", b"x", {"dequeue_at": -5}),
    ("line\nbreak\ttab", b"x", {}),
]


@pytest.fixture
def conn(conn: psycopg.Connection) -> psycopg.Connection:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    return conn


def finish_all_kinds(conn: psycopg.Connection) -> None:
    """Finish messages of all kinds: completed, dead and cancelled."""
    for channel, content, more in MESSAGES:
        names = "".join(f", p_{name} => %({name})s" for name in more)
        query = f"SELECT id FROM message_create(%(channel)s, %(content)s{names})"
        conn.execute(query.encode(), {"channel": channel, "content": content} | more)
    dispatch(conn)
    for message in dequeue(conn, 100, 60_000, "wörker")[0]:
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    conn.execute("SELECT id FROM message_create('doomed', 'x', p_max_attempts => 1)")
    dispatch(conn)
    [doomed] = dequeue(conn, 1, 60_000)[0]
    conn.execute("SELECT message_retry(%s, %s, p_error => 'no ''such'' thing')", (doomed.id, doomed.token))
    [(waiting,)] = conn.execute("SELECT id FROM message_create('cancelled', 'x')").fetchall()
    for _ in range(2):
        dispatch(conn)
        [tried] = dequeue(conn, 1, 60_000)[0]
        conn.execute("SELECT message_retry(%s, %s)", (tried.id, tried.token))
    conn.execute("SELECT message_cancel(%s)", (waiting,))


def history(spark: SparkSession, options: dict[str, str], **more: Any) -> DataFrame:
    return spark.read.format("lonnymq_history").options(**options).options(**more).load()


def stream(spark: SparkSession, options: dict[str, str], **more: Any) -> DataFrame:
    return spark.readStream.format("lonnymq_history").options(**options).options(**more).load()


def ids(rows: list[Row]) -> list[int]:
    return sorted(row[1] for row in rows)


def test_spark_and_postgresql_have_the_same_rows(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection
) -> None:
    finish_all_kinds(conn)
    df = history(spark, options, minPartitions=3, headersFormat="json")
    rows = read(df)
    assert set(rows) == shown(conn, "history", df.columns)
    assert len(rows) == len(MESSAGES) + 2
    by_channel = {row["channel"]: row for row in df.collect()}
    assert bytes(by_channel["empty"]["content"]) == b""
    assert bytes(by_channel["large"]["content"]) == LARGE
    assert by_channel["plain"]["headers"] is None
    assert {row["outcome"] for row in by_channel.values()} == {"completed", "dead", "cancelled"}
    assert by_channel["urgent"]["dequeue_at"] == -5
    assert len(by_channel["cancelled"]["past_runs"]) == 2
    assert by_channel["plain"]["past_runs"] is None
    assert df.rdd.getNumPartitions() >= 3
    by_name = {row["channel"]: row["headers"] for row in history(spark, options).collect()}
    assert by_name["grüße, 世界 🐘 'quoted' \\ %"] == {"naïve": "🐘", "n": "1.50", "deep": "[{}, null]"}
    assert (by_name["headers"], by_name["plain"]) == ({}, None)


def test_the_schema_is_exact(spark: SparkSession, options: dict[str, str], conn: psycopg.Connection) -> None:
    types = {field.name: field.dataType for field in history(spark, options).schema}
    times = ("created_at", "first_dequeued_at", "dequeued_at", "finished_at")
    texts = ("channel", "outcome", "consumer", "error", "dedupe_key", "lane")
    assert types == {
        **dict.fromkeys(("xid", "id", "dequeue_at"), LongType()),
        **dict.fromkeys(("attempts", "content_bytes", "priority", "cost"), IntegerType()),
        **dict.fromkeys(times, TimestampType()),
        **dict.fromkeys(texts, StringType()),
        "past_runs": ArrayType(RUN),
        "headers": MapType(StringType(), StringType()),
        "content": BinaryType(),
    }
    finish_all_kinds(conn)
    without = history(spark, options, includeContent="false", headersFormat="json")
    assert set(without.columns) == types.keys() - {"content"}
    assert set(read(without)) == shown(conn, "history", without.columns)


def test_a_schema_is_refused(spark: SparkSession, options: dict[str, str]) -> None:
    chosen = spark.read.format("lonnymq_history").options(**options).schema(StructType().add("id", "long"))
    with (
        pytest.raises(InvalidArgument, match="the columns of lonnymq_history are fixed"),
        unwrap_spark_errors(),
    ):
        chosen.load().collect()


def test_a_mistyped_option_is_refused_at_load(spark: SparkSession, options: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="there is no option startingoffset"), unwrap_spark_errors():
        history(spark, options, startingOffset="earliest")


def test_times_are_right_in_every_time_zone(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection
) -> None:
    finish_all_kinds(conn)
    found: dict[str, list[Row]] = {}
    for zone in ("Pacific/Auckland", "America/St_Johns"):
        with setting(spark, ZONE, zone):
            df = history(spark, options).selectExpr(
                "id", "unix_millis(finished_at)", "date_format(finished_at, 'yyyy-MM-dd HH:mm:ss.SSS')"
            )
            found[zone] = [tuple(row) for row in df.orderBy("id").collect()]
    query = """
        SELECT id, finished_at,
            to_char(to_timestamp(finished_at / 1000.0) AT TIME ZONE %s, 'YYYY-MM-DD HH24:MI:SS.MS')
        FROM history ORDER BY id"""
    for zone, rows in found.items():
        assert rows == conn.execute(query, (zone,)).fetchall()
    assert found["Pacific/Auckland"] != found["America/St_Johns"]


def test_an_empty_history(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, tmp_path: Path
) -> None:
    df = history(spark, options, minPartitions=5)
    assert read(df) == []
    assert df.count() == 0
    assert run(stream(spark, options), tmp_path) == [[]]  # Spark always has a first batch
    assert run(stream(spark, options), tmp_path) == []


def test_a_batch_between_two_positions(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection
) -> None:
    finish(conn, 1, 3)
    first = json.dumps(position(conn))
    finish(conn, 4, 6)
    second = json.dumps(position(conn))
    finish(conn, 7, 9)

    def between(**offsets: str) -> list[int]:
        return ids(read(history(spark, options, **offsets)))

    assert between() == list(range(1, 10))
    assert between(startingOffsets=first) == list(range(4, 10))
    assert between(endingOffsets=first) == [1, 2, 3]
    assert between(startingOffsets=first, endingOffsets=second) == [4, 5, 6]
    assert between(startingOffsets=first, endingOffsets=first) == []
    with pytest.raises(PositionUnknown, match="is not after the start"), unwrap_spark_errors():
        between(startingOffsets=second, endingOffsets=first)


def test_a_limited_stream_splits_no_transaction(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, tmp_path: Path
) -> None:
    for first, last in [(1, 3), (4, 6), (7, 7), (8, 40), (41, 42)]:
        finish(conn, first, last)
    batches = run(stream(spark, options, maxOffsetsPerTrigger=7), tmp_path)
    assert [ids(rows) for rows in batches] == [list(range(1, 8)), list(range(8, 41)), [41, 42]]
    assert {row for rows in batches for row in rows} == shown(
        conn, "history", history(spark, options).columns
    )


def test_a_stream_continues_from_its_checkpoint(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, tmp_path: Path
) -> None:
    finish(conn, 1, 3)
    assert [ids(rows) for rows in run(stream(spark, options), tmp_path)] == [[1, 2, 3]]
    finish(conn, 4)
    finish(conn, 5)
    later = stream(spark, options, maxOffsetsPerTrigger=1)
    assert [ids(rows) for rows in run(later, tmp_path)] == [[4], [5]]
    (tmp_path / "commits" / "2").unlink()  # as if the driver died before it logged the commit
    (tmp_path / "commits" / ".2.crc").unlink(missing_ok=True)
    finish(conn, 6)
    assert [ids(rows) for rows in run(stream(spark, options), tmp_path)] == [[5], [6]]


def test_a_stream_may_start_at_latest_or_at_a_position(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, tmp_path: Path
) -> None:
    finish(conn, 1)
    assert run(stream(spark, options, startingOffsets="latest"), tmp_path) == [[]]
    here = json.dumps(position(conn))
    finish(conn, 2)
    batches = run(stream(spark, options, startingOffsets=here), tmp_path / "other")
    assert [ids(rows) for rows in batches] == [[2]]


def edit_offset(checkpoint: Path, number: int, **changes: Any) -> None:
    path = checkpoint / "offsets" / str(number)
    [version, about, offset] = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([version, about, json.dumps(json.loads(offset) | changes)]), "utf-8")
    path.with_name(f".{number}.crc").unlink(missing_ok=True)


def test_a_restored_database_is_detected(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, tmp_path: Path
) -> None:
    finish(conn, 1)
    assert [ids(rows) for rows in run(stream(spark, options), tmp_path)] == [[1]]
    finish(conn, 2)
    here = position(conn)
    edit_offset(tmp_path, 0, system=here["system"] + 1)
    with pytest.raises(PositionUnknown, match="is of another cluster") as refused, unwrap_spark_errors():
        run(stream(spark, options), tmp_path)
    assert "a new checkpoint" in str(refused.value)
    ahead = Snapshot.of(Snapshot.parse(here["snapshot"]).xmax + 100_000)
    for wrong in (here | {"system": 1}, here | {"snapshot": str(ahead)}):
        with pytest.raises(PositionUnknown), unwrap_spark_errors():
            read(history(spark, options, startingOffsets=json.dumps(wrong)))


def test_rows_that_retention_dropped_before_they_were_read(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, tmp_path: Path
) -> None:
    finish(conn, 1)
    assert [ids(rows) for rows in run(stream(spark, options), tmp_path)] == [[1]]
    here = json.dumps(position(conn))
    finish(conn, 2)
    conn.execute("SELECT maintain()")
    finish(conn, 3)
    with pytest.raises(RowsLost, match="failOnDataLoss=false"), unwrap_spark_errors():
        run(stream(spark, options), tmp_path)
    with pytest.raises(RowsLost), unwrap_spark_errors():
        read(history(spark, options, startingOffsets=here))
    assert ids(read(history(spark, options))) == [3]
    assert ids(read(history(spark, options, startingOffsets=here, failOnDataLoss="false"))) == [3]
    goes_on = stream(spark, options, failOnDataLoss="false")
    assert [ids(rows) for rows in run(goes_on, tmp_path)] == [[3]]


def rows_scanned(df: DataFrame) -> int:
    """The number of rows that PostgreSQL returned, as counted by Spark."""
    plan: Any = df._jdf.queryExecution().executedPlan()
    while not plan.children().isEmpty():
        plan = plan.children().head()
    return int(plan.metrics().get("numOutputRows").get().value())


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("condition", "scanned"),
    [
        ("channel = 'channel 3'", 14),
        ("channel IN ('channel 3', 'channel 4', 'none', NULL)", 28),
        ("channel = 'channel 3' AND id > 50", 14),
        ("finished_at < timestamp_millis(1700000000010)", 9),
        ("finished_at BETWEEN timestamp_millis(1700000000010) AND timestamp_millis(1700000000019)", 10),
        ("outcome = 'dead'", 0),
        ("outcome = 'completed' AND channel <> 'channel 3'", 100),
        ("channel = 'channel 3' OR id = 1", 100),
    ],
)
def test_filters_are_pushed_down_when_spark_allows_it(
    spark: SparkSession, options: dict[str, str], conn: psycopg.Connection, condition: str, scanned: int
) -> None:
    finish(conn, 1, 50)
    finish(conn, 51, 100)
    found = {}
    for is_on, expected in [("false", 100), ("true", scanned)]:
        with setting(spark, PUSHDOWN, is_on):
            df = history(spark, options, minPartitions=2).where(condition).select("id", "channel")
            found[is_on] = sorted(map(tuple, df.collect()))
            assert rows_scanned(df) == expected
    assert found["true"] == found["false"]
