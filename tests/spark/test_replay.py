"""Replaying past messages."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from lonnymq.errors import InvalidArgument
from lonnymq.spark.lake import delta_table
from lonnymq.spark.lake.archive import archive
from lonnymq.spark.replay_messages import NothingToReplay, replay
from lonnymq.spark.sink.publication import Publication
from tests.invariants import dequeue, dispatch
from tests.spark.traffic import finish, kill, settle


@pytest.fixture(autouse=True)
def history(conn: psycopg.Connection) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")


def past(spark: SparkSession, options: dict[str, str], kind: str) -> DataFrame:
    return spark.read.format(f"lonnymq_{kind}").options(**options, headersFormat="json").load()


def waiting(conn: psycopg.Connection) -> list[tuple[str, bytes]]:
    return conn.execute("SELECT channel, content FROM message ORDER BY channel, content").fetchall()


def test_from_the_lake_and_straight(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    finish(conn, "acme", [b"one"])
    kill(conn, "doomed", [b"two"])
    archive(spark, str(tmp_path), options)
    assert replay(past(spark, options, "dead"), options).created == 1
    assert (
        replay(
            delta_table.read(spark, f"{tmp_path}/history"), options, channels=["acme"], into="again"
        ).created
        == 1
    )
    none = replay(past(spark, options, "history"), options, channels=["acmee"], once="x")
    assert none == Publication(created=0, duplicates=0, refused=0, is_repeat=False)
    for is_repeat in (False, True):
        done = replay(past(spark, options, "history"), options, outcomes=["dead"], once="x")
        assert done == Publication(created=1, duplicates=0, refused=0, is_repeat=is_repeat)
    assert waiting(conn) == [("again", b"one"), ("doomed", b"two"), ("doomed", b"two")]


def test_replayed_messages_keep_their_settings(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    conn.execute(
        "SELECT message_create('acme', 'one', p_headers => '{\"k\": 1}', p_priority => -3, p_cost => 9,"
        " p_lane => 'slow', p_max_attempts => 1, p_dedupe_key => 'k')"
    )
    dispatch(conn)
    [message] = dequeue(conn, 1, 60_000)[0]
    conn.execute("SELECT message_retry(%s, %s, p_error => 'no')", (message.id, message.token))
    settle(conn)
    archive(spark, str(tmp_path), options)
    sources = [past(spark, options, kind) for kind in ("history", "dead")]
    sources += [delta_table.read(spark, f"{tmp_path}/{table}") for table in ("history", "dead")]
    for n, rows in enumerate(sources):
        assert replay(rows, options, into=f"again {n}").created == 1
    found = conn.execute(
        "SELECT headers, lane, priority, cost, dedupe_key, attempts, max_attempts FROM message"
        " ORDER BY channel"
    ).fetchall()
    kept = ({"k": 1}, "slow", -3, 9, "k", 0)
    assert found == [(*kept, None), (*kept, 1)] * 2, "the history does not have max_attempts"
    assert replay(sources[0], options, into="again 0").duplicates == 1, "a message with this key waits"
    as_map = spark.read.format("lonnymq_dead").options(**options).load()
    with pytest.raises(InvalidArgument, match="headersFormat=json"):
        replay(as_map, options)


def test_by_time(spark: SparkSession, conn: psycopg.Connection, options: dict[str, str]) -> None:
    finish(conn, "acme", [b"one"])
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    rows = past(spark, options, "history")
    assert replay(rows, options, until=now - hour).created == 0
    assert replay(rows, options, since=now - hour, until=now + hour).created == 1


def test_content_that_was_not_kept(
    spark: SparkSession, conn: psycopg.Connection, options: dict[str, str]
) -> None:
    conn.execute("SELECT queue_set(p_history_content => FALSE)")
    finish(conn, "acme", [b"one"])
    with pytest.raises(NothingToReplay, match="p_history_content"):
        replay(past(spark, options, "history"), options)
    with pytest.raises(InvalidArgument, match="lonnymq_history"):
        replay(spark.createDataFrame([(1,)], "id long"), options)
    with pytest.raises(InvalidArgument, match="have no outcome"):
        replay(past(spark, options, "dead"), options, outcomes=["dead"])
    assert waiting(conn) == []
