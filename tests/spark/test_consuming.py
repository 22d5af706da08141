"""Streams that consume the queue: each message comes once, and is completed when its batch is done."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.database import Connect
from tests.invariants import check, dequeue, dispatch
from tests.spark.consuming import TIMEOUT_S, Options, Streams, await_end, completed, create, moved, one, until

ANY_TEXT = 'o\'brien \\ "größe" %s'
"""The name of a consumer."""


@pytest.fixture(autouse=True)
def _history(conn: psycopg.Connection) -> None:
    conn.execute("SELECT * FROM queue_set(p_history => TRUE)")


@pytest.fixture
def streams(spark: SparkSession, options: Options, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, options, tmp_path)
    yield made
    made.stop()


def test_everything_once_and_completed(streams: Streams, conn: psycopg.Connection) -> None:
    create(conn, 1000, 7)
    streams.run(maxOffsetsPerTrigger="300", minPartitions="2")
    assert sorted(streams.ids()) == sorted(set(streams.ids()))
    assert len(streams.ids()) == 1000
    assert [len(rows) for _, rows in streams.batches] == [300, 300, 300, 100]
    assert one(conn, "SELECT COUNT(*) FROM message") == 0
    assert completed(conn) == 1000
    assert conn.execute("SELECT DISTINCT consumer, attempts FROM history").fetchall() == [("etl", 1)]
    check(conn)


def test_nothing_is_completed_when_it_does_not_fit(streams: Streams, conn: psycopg.Connection) -> None:
    create(conn, 50)
    conn.execute("SELECT channel_set('out', p_max_size => 10)")
    with pytest.raises(PySparkException, match="ChannelFull: channel 'out' is full") as refused:
        await_end(streams.move())
    assert "40 of 50 messages do not fit" in str(refused.value)
    assert "onFull" not in str(refused.value), "a stream that completes cannot drop"
    assert (moved(conn), completed(conn), one(conn, "SELECT COUNT(*) FROM staging_chunk")) == ([], 0, 0)
    conn.execute("SELECT channel_set('out', p_max_size => 50)")
    await_end(streams.move())
    assert moved(conn) == list(range(50))
    assert completed(conn) == 50
    check(conn)


def test_the_columns_of_a_row(streams: Streams, conn: psycopg.Connection) -> None:
    conn.execute(
        "SELECT message_create('grüße', 'content', -5, '{\"k\": [1, \"ß\"]}', NULL, 'key');"
        "SELECT message_create('plain', '')"
    )
    dispatch(conn)
    first = next(message for message in dequeue(conn, 2)[0] if message.headers)
    conn.execute("SELECT message_retry(s.id, l.token, p_state => 'page 7') FROM lease l, unnest(l.stubs) s")
    query = "SELECT created_at, dequeued_at FROM message WHERE id = %s"
    streams.run(consumer=ANY_TEXT)
    row, plain = sorted(streams.rows(), key=lambda row: row.channel)
    assert (row.id, row.channel, row.content, row.headers) == (
        first.id,
        "grüße",
        b"content",
        {"k": '[1, "ß"]'},
    )
    assert (row.state, row.attempts, row.dedupe_key, row.dequeue_at) == (b"page 7", 1, "key", -5)
    assert (plain.content, plain.headers, plain.dedupe_key) == (b"", None, None)
    assert row.claim.asDict() == {"consumer": ANY_TEXT, "seq": 1, "generation": 1, "id": first.id}
    assert conn.execute(query, (first.id,)).fetchall() == []
    query = "SELECT created_at, dequeued_at FROM history WHERE id = %s"
    [(created_at, dequeued_at)] = conn.execute(query, (first.id,)).fetchall()
    assert int(row.created_at.timestamp() * 1000) == created_at
    assert round(row.dequeued_at.timestamp() * 1000) == dequeued_at


def test_a_stream_continues(streams: Streams, conn: psycopg.Connection) -> None:
    query = streams.start()
    create(conn, 10)
    until(lambda: completed(conn) == 10, "the first")
    create(conn, 10)
    until(lambda: completed(conn) == 20, "the second")
    query.stop()
    create(conn, 10)
    streams.run()
    assert len(streams.ids()) == len(set(streams.ids())) == 30


def test_the_trigger_once(streams: Streams, conn: psycopg.Connection) -> None:
    """One batch, whatever its limit: of the messages, and then of the history that they became."""
    create(conn, 30, 3)
    once = {"once": True}
    await_end(streams.start(trigger=once, checkpointLocation=str(streams.folder / "checkpoint")))
    assert [len(rows) for _, rows in streams.batches] == [30]
    streams.run()
    assert completed(conn) == 30, "another start completes it, if the first stopped too early"
    check(conn)
    history = streams.spark.readStream.format("lonnymq_history").options(**streams.options)
    counts: list[int] = []
    counting = history.option("maxOffsetsPerTrigger", "1").load().writeStream
    await_end(
        streams.started(counting.foreachBatch(lambda rows, _: counts.append(rows.count())), "history", once)
    )
    assert counts == [30]


def test_completed_before_the_next_trigger(streams: Streams, conn: psycopg.Connection) -> None:
    """The next trigger is an hour later."""
    create(conn, 10)
    streams.start(trigger={"processingTime": "1 hour"}, checkpointLocation=str(streams.folder / "checkpoint"))
    until(lambda: completed(conn) == 10, "the batch to be completed")
    assert len(streams.ids()) == 10
    check(conn)


def test_limits_hold(streams: Streams, conn: psycopg.Connection, connect: Connect) -> None:
    """A channel with a concurrency of one never has two leased messages, so each batch has one of them."""
    watcher = connect()
    conn.execute("SELECT channel_set('one0', p_max_concurrency => 1)")
    create(conn, 4, name="one")
    create(conn, 40, 4, name="free")
    leased: list[int] = []

    def look(_: list[Any]) -> None:
        leased.append(one(watcher, "SELECT COUNT(*) FROM leases WHERE channel = 'one0'"))

    streams.run(during=look)
    assert leased == [1, 1, 1, 1]
    assert [sum(row.channel == "one0" for row in rows) for _, rows in streams.batches] == [1, 1, 1, 1]
    assert completed(conn) == 44
    check(conn)


def test_a_batch_is_fair(streams: Streams, conn: psycopg.Connection) -> None:
    create(conn, 30, name="crowd")
    create(conn, 18, 9, name="c")
    streams.run(maxOffsetsPerTrigger="20")
    first = [row.channel for row in streams.batches[0][1]]
    assert {channel: first.count(channel) for channel in first} == {
        "crowd0": 2,
        **{f"c{n}": 2 for n in range(9)},
    }


def test_available_now_stops_while_others_produce(
    streams: Streams, conn: psycopg.Connection, connect: Connect
) -> None:
    create(conn, 60, 6, name="old")
    producer, stopped = connect(), threading.Event()

    def produce() -> None:
        while not stopped.wait(0.05):
            create(producer, 6, 6, name="new")

    producing = threading.Thread(target=produce)
    producing.start()
    try:
        streams.run(maxOffsetsPerTrigger="40")
    finally:
        stopped.set()
        producing.join()
    assert sum(row.channel.startswith("old") for row in streams.rows()) == 60
    assert completed(conn) == len(streams.ids()), "the last batch is completed too"


def test_an_empty_queue(streams: Streams, conn: psycopg.Connection) -> None:
    streams.run()
    assert streams.rows() == []
    assert one(conn, "SELECT generation FROM claimant") == 1


def test_a_batch_that_takes_longer_than_its_leases(
    streams: Streams, conn: psycopg.Connection, connect: Connect
) -> None:
    create(conn, 10)
    other = connect()

    def work(_: list[Any]) -> None:
        first = one(other, "SELECT MIN(end_at) FROM lease")
        until(lambda: one(other, "SELECT to_epoch(clock_timestamp())") > first + 500, "a lease and a half")
        dispatch(other)
        assert dequeue(other, 10)[0] == []

    streams.run(during=work, leaseSeconds="1")
    assert completed(conn) == 10
    assert len(streams.ids()) == 10
    assert one(conn, "SELECT MAX(attempts) FROM history") == 1


def test_a_failed_stream_keeps_no_leases(streams: Streams, conn: psycopg.Connection) -> None:
    """Its heartbeat stops with it."""
    create(conn, 10)

    def fail(_: list[Any]) -> None:
        raise ZeroDivisionError

    with refused("ZeroDivisionError"):
        streams.run(during=fail, leaseSeconds="1")
    assert one(conn, "SELECT COUNT(*) FROM leases") == 10
    until(lambda: _leases_are_gone(conn), "the leases to run out")
    streams.run()
    assert completed(conn) == 10


@pytest.mark.parametrize(("messages", "starts"), [(3, 4), pytest.param(30, 7, marks=pytest.mark.long)])
def test_a_message_that_always_fails_dies_alone(
    streams: Streams, conn: psycopg.Connection, messages: int, starts: int
) -> None:
    """Its batch comes again in smaller batches, until it is alone; then each failure uses up an attempt."""
    conn.execute("SELECT * FROM queue_set(p_max_attempts => 2)")
    create(conn, messages, 3)
    doomed = str(messages // 2)

    def fail(rows: list[Any]) -> None:
        if any(row.content == doomed.encode() for row in rows):
            raise ZeroDivisionError

    for _ in range(starts):
        try:
            streams.run(during=fail)
        except PySparkException as error:
            assert "ZeroDivisionError" in str(error)  # noqa: PT017 - it fails some times
    assert len(set(streams.ids())) == len(streams.ids()) == completed(conn) == messages - 1
    query = "SELECT attempts, consumer, error, convert_from(content, 'UTF8') FROM dead"
    reason = "etl failed, or was stopped, while it processed this message alone"
    assert conn.execute(query).fetchall() == [(2, "etl", reason, doomed)]
    assert one(conn, "SELECT MAX(attempts) FROM history WHERE outcome = 'completed'") == 1
    check(conn)


def _leases_are_gone(conn: psycopg.Connection) -> bool:
    dispatch(conn)
    return bool(one(conn, "SELECT COUNT(*) FROM leases") == 0)


@contextmanager
def refused(match: str) -> Iterator[None]:
    with pytest.raises(PySparkException, match=match):
        yield


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"realTime": "5 minutes"}])
def test_triggers_that_spark_does_not_support_here(streams: Streams, trigger: dict[str, str]) -> None:
    writing = streams.read().writeStream.format("noop").outputMode("update")
    with refused("(?i)continuous|real.?time"):
        streams.started(writing, "none", trigger).awaitTermination(TIMEOUT_S)


def test_without_a_consumer(streams: Streams) -> None:
    options = streams.options | {"maxOffsetsPerTrigger": "10"}
    for given in (options, streams.options):
        with refused("the option consumer is missing"):
            streams.spark.readStream.format("lonnymq").options(**given).load().writeStream.format(
                "noop"
            ).option("checkpointLocation", str(streams.folder / "none")).start().awaitTermination(TIMEOUT_S)


def test_a_table_takes_no_consumer(streams: Streams) -> None:
    with refused("there is no option consumer"):
        streams.spark.read.format("lonnymq").options(**streams.options, consumer="etl").load().collect()
