"""The numbers of the report, compared with PostgreSQL's own and with numbers computed by hand."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lonnymq.errors import InvalidArgument, InvalidTime
from lonnymq.spark.reports.build import TYPES, Report, report
from tests.clock import FakeClock
from tests.invariants import dequeue, dispatch

CHANNELS = ("acme", "bluebird", "zoë 🦜 株式会社", "<script>alert(1)</script>", "'; DROP TABLE message; --")
ZONES = ("Pacific/Kiritimati", "America/St_Johns")
BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
MOMENTS = """
    WITH chosen AS (
        SELECT * FROM history
        WHERE (finished_at >= %(since)s::BIGINT) IS NOT FALSE
            AND (finished_at < %(until)s::BIGINT) IS NOT FALSE),
    moment AS (
        SELECT *, COALESCE(first_dequeued_at, finished_at) AS "left",
            CASE WHEN due <= first_dequeued_at THEN first_dequeued_at - due END AS wait
        FROM (SELECT *, GREATEST(created_at, dequeue_at) AS due FROM chosen) c),
    span AS (
        SELECT GREATEST(%(since)s::BIGINT, MIN(LEAST(first_dequeued_at, finished_at))) AS began,
            MAX(finished_at) AS ended
        FROM chosen)"""
COUNTS = """
    COUNT(*) AS messages,
    COUNT(*) FILTER (WHERE outcome = 'completed') AS completed,
    COUNT(*) FILTER (WHERE outcome = 'dead') AS dead,
    COUNT(*) FILTER (WHERE outcome = 'cancelled') AS cancelled,
    SUM(CASE WHEN attempts > 1 THEN attempts - 1 ELSE 0 END) AS retries,
    COUNT(wait) AS waits,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY wait) AS wait_p50_ms,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY wait) AS wait_p95_ms,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY wait) AS wait_p99_ms,
    (COUNT(*) FILTER (WHERE outcome = 'completed'))::FLOAT8
        / NULLIF((SELECT ended - began FROM span)::FLOAT8 / 1000, 0) AS throughput,
    COALESCE(SUM(finished_at - dequeued_at) FILTER (WHERE outcome IN ('completed', 'dead')), 0)::FLOAT8 / 1000
        AS work_s"""
# For every bucket and channel: how many messages were served in it, and how many waited at its start and end.
BACKLOGGED = """,
    bucket AS (
        SELECT b, began + b * %(bucket)s::BIGINT AS starts, began + (b + 1) * %(bucket)s::BIGINT AS ends
        FROM span, generate_series(0, (ended - began) / %(bucket)s::BIGINT) b),
    state AS (
        SELECT channel, b,
            COUNT(*) FILTER (WHERE first_dequeued_at >= starts AND first_dequeued_at < ends) AS served,
            COUNT(*) FILTER (WHERE due < starts AND "left" >= starts) AS at_start,
            COUNT(*) FILTER (WHERE due < ends AND "left" >= ends) AS at_end
        FROM moment CROSS JOIN bucket GROUP BY channel, b),
    backlogged AS (SELECT * FROM state WHERE at_start > 0 AND at_end > 0),
    sums AS (
        SELECT b, COUNT(*) AS n, SUM(served)::FLOAT8 AS total, SUM(served * served)::FLOAT8 AS squares
        FROM backlogged GROUP BY b HAVING COUNT(*) > 1 AND SUM(served) > 0)"""
SHARES = """
    SELECT channel, SUM(served) / SUM(total) AS share, SUM(total / n) / SUM(total) AS fair_share
    FROM backlogged JOIN sums USING (b) GROUP BY channel"""
JAIN = """
    SELECT SUM(total * total * total / (n * squares)) / SUM(total) AS jain,
        COALESCE(SUM(total), 0)::BIGINT AS contended
    FROM sums"""


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    conn.execute("SELECT queue_set(p_history => TRUE)")
    return FakeClock(conn, int(BEGAN.timestamp() * 1000))


@pytest.fixture
def history(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("lonnymq_history").options(**options).load()


def simulate_day(conn: psycopg.Connection, clock: FakeClock, seed: int = 7) -> None:
    """Messages with all possible outcomes, at random. One tenant is paused at first."""
    chance = random.Random(seed)
    conn.execute("SELECT channel_set('bluebird', p_paused => TRUE)")
    ids = [_create(conn, clock, chance, number) for number in range(150)]
    conn.execute("SELECT message_cancel(id) FROM unnest(%s) id", (chance.sample(ids, 25),))
    for turn in range(2_000):
        if turn == 60:
            conn.execute("SELECT channel_set('bluebird', p_paused => FALSE)")
        if turn < 40:
            for _ in range(chance.randint(0, 8)):
                _create(conn, clock, chance, len(ids))
        clock.advance(chance.randint(0, 120))
        dispatch(conn)
        taken = dequeue(conn, chance.randint(1, 4), 5_000)[0]
        for message in taken:
            clock.advance(chance.randint(0, 90))
            _end(conn, clock, chance, (message.id, message.token))
        if chance.random() < 0.05:
            conn.execute("SELECT dead_retry(ARRAY(SELECT id FROM dead LIMIT 1))")
        if not taken:
            if turn > 60 and not conn.execute("SELECT 1 FROM message LIMIT 1").fetchone():
                return
            clock.advance(4_000)
    raise AssertionError("messages are left")


def _create(conn: psycopg.Connection, clock: FakeClock, chance: random.Random, number: int) -> int:
    clock.advance(chance.randint(0, 15))
    channel = "acme" if number < 60 else chance.choice(CHANNELS)
    at = chance.choice([None] * 6 + [-5, clock.at + 20_000])
    made = "SELECT id FROM message_create(%s, 'x', %s, p_max_attempts => 2)"
    row = conn.execute(made, (channel, at)).fetchone()
    assert row is not None
    return int(row[0])


def _end(conn: psycopg.Connection, clock: FakeClock, chance: random.Random, held: tuple[Any, Any]) -> None:
    drawn = chance.random()
    if drawn < 0.75:
        conn.execute("SELECT message_complete(%s, %s)", held)
    elif drawn < 0.82:
        conn.execute("SELECT message_retry(%s, %s, p_error => 'no')", held)
    elif drawn < 0.89:
        later = clock.at + chance.randint(0, 3_000)
        conn.execute("SELECT message_retry(%s, %s, %s, p_error => 'no')", (*held, later))
    elif drawn < 0.95:
        conn.execute("SELECT message_cancel(%s)", held[:1])
        conn.execute("SELECT message_complete(%s, %s)", held)
    # else: the lease runs out


def computed_by_postgresql(
    conn: psycopg.Connection, bucket_ms: int, since: int | None = None, until: int | None = None
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    given = {"bucket": bucket_ms, "since": since, "until": until}
    with conn.cursor(row_factory=dict_row) as cursor:

        def ask(query: str) -> list[dict[str, Any]]:
            return cursor.execute(query.encode(), given).fetchall()

        of_all = ask(f"{MOMENTS} SELECT {COUNTS} FROM moment")[0] | ask(f"{MOMENTS}{BACKLOGGED} {JAIN}")[0]
        each = {
            row["channel"]: row for row in ask(f"{MOMENTS} SELECT channel, {COUNTS} FROM moment GROUP BY 1")
        }
        for row in ask(f"{MOMENTS}{BACKLOGGED} {SHARES}"):
            each[row["channel"]] |= row
        return each, of_all


def check(found: Report, expected: tuple[dict[str, dict[str, Any]], dict[str, Any]]) -> None:
    each, of_all = expected
    assert {tenant.channel for tenant in found.tenants} == set(each)
    for tenant in found.tenants:
        wanted = {"share": None, "fair_share": None} | each[tenant.channel]
        got = asdict(tenant)
        for name in ("share", "fair_share"):
            assert got.pop(name) == near(wanted.pop(name)), (tenant.channel, name)
        assert got == wanted
    totals = asdict(found.totals)
    assert totals.pop("jain") == near(of_all.pop("jain"))
    assert of_all.items() <= totals.items()


def near(value: float | None) -> Any:
    """The last digit of a sum of fractions depends on their order."""
    return None if value is None else pytest.approx(value, rel=1e-12)


def test_all_numbers_are_those_of_postgresql(
    spark: SparkSession, conn: psycopg.Connection, clock: FakeClock, history: DataFrame, tmp_path: Path
) -> None:
    """One day of traffic, reported with several buckets, for a part of the time, and in other time zones."""
    simulate_day(conn, clock)
    later = conn.execute("SELECT COUNT(*) FROM history WHERE dequeue_at > first_dequeued_at").fetchone()
    assert later is not None
    assert later[0] > 10, "too few messages were retried with a delay"
    for bucket in (0.5, 7.3, 600):
        found = report(spark, history, bucket=bucket)
        check(found, computed_by_postgresql(conn, found.bucket_ms))
        totals = found.totals
        assert all([totals.completed, totals.dead, totals.cancelled, totals.retries]), "an outcome is missing"
        assert (totals.jain is None) == (bucket > 60)
        assert sum(sum(flow.completed) for flow in found.flows) == totals.completed
    check_part_of_the_time(spark, conn, history)
    check_time_zones_and_files(spark, conn, clock, history, tmp_path)


def check_part_of_the_time(spark: SparkSession, conn: psycopg.Connection, history: DataFrame) -> None:
    times = [row[0] for row in conn.execute("SELECT finished_at FROM history ORDER BY 1")]
    since, until = times[len(times) // 4], times[len(times) * 3 // 4]
    found = report(spark, history, _time(since), _time(until))
    assert 0 < found.totals.messages < len(times)
    check(found, computed_by_postgresql(conn, found.bucket_ms, since, until))
    assert (found.began_at, found.bucket_ms) == (_time(since), 1_000)
    assert report(spark, history, until=_time(times[0])).tenants == ()
    first = report(spark, history, _time(times[0]), _time(times[0] + 1)).totals.messages
    assert first == times.count(times[0])


def check_time_zones_and_files(
    spark: SparkSession, conn: psycopg.Connection, clock: FakeClock, history: DataFrame, tmp_path: Path
) -> None:
    """The report does not depend on the session's time zone, or on where the history is read from."""
    before = spark.conf.get("spark.sql.session.timeZone")
    since = clock.at - 20_000
    found = []
    try:
        for zone in ZONES:
            spark.conf.set("spark.sql.session.timeZone", zone)
            found.append(report(spark, history, _time(since)))
            history.write.parquet(str(tmp_path / zone))
            found.append(report(spark, spark.read.parquet(str(tmp_path / zone)), _time(since)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert len({rounded(one).to_json() for one in found}) == 1
    check(found[0], computed_by_postgresql(conn, found[0].bucket_ms, since))


def rounded(found: Report) -> Report:
    def cut(value: float | None) -> float | None:
        return None if value is None else round(value, 12)

    tenants = (replace(t, share=cut(t.share), fair_share=cut(t.fair_share)) for t in found.tenants)
    return replace(found, tenants=tuple(tenants))


def test_an_empty_history(spark: SparkSession, conn: psycopg.Connection, history: DataFrame) -> None:
    found = report(spark, history)
    assert (found.tenants, found.flows, found.began_at, found.ended_at) == ((), (), None, None)
    totals = asdict(found.totals)
    assert {name for name, value in totals.items() if value is None} == {
        "wait_p50_ms", "wait_p95_ms", "wait_p99_ms", "throughput", "jain", "jain_best",
    }  # fmt: skip
    assert not any(totals.values())


def test_one_message(
    spark: SparkSession, conn: psycopg.Connection, clock: FakeClock, history: DataFrame
) -> None:
    conn.execute("SELECT message_create('acme', 'x')")
    clock.advance(1_500)
    dispatch(conn)
    held = dequeue(conn, 1, 60_000)[0][0]
    conn.execute("SELECT message_complete(%s, %s)", (held.id, held.token))
    found = report(spark, history)
    check(found, computed_by_postgresql(conn, found.bucket_ms))
    tenant = found.tenants[0]
    assert (tenant.wait_p50_ms, tenant.wait_p99_ms, tenant.throughput, tenant.share) == (
        1500,
        1500,
        None,
        None,
    )
    assert found.began_at == found.ended_at == BEGAN + timedelta(milliseconds=1_500)


def test_messages_that_were_never_dequeued(
    spark: SparkSession, conn: psycopg.Connection, clock: FakeClock, history: DataFrame
) -> None:
    conn.execute("SELECT message_create('acme', 'x'), message_create('acme', 'x', %s)", (clock.at + 90_000,))
    clock.advance(5_000)
    conn.execute("SELECT message_cancel_many(ARRAY(SELECT id FROM message))")
    found = report(spark, history)
    check(found, computed_by_postgresql(conn, found.bucket_ms))
    tenant = found.tenants[0]
    assert (tenant.cancelled, tenant.waits, tenant.wait_p50_ms, tenant.work_s) == (2, 0, None, 0)


Waited = tuple[str, float, float]


def waited(spark: SparkSession, rows: Sequence[Waited]) -> DataFrame:
    """A history of messages, given as channel, due time and first dequeue, in seconds."""
    made = spark.createDataFrame(
        [(channel, int(due * 1000), int(first * 1000)) for channel, due, first in rows],
        "channel string, due long, first long",
    )
    first = f.timestamp_millis("first")
    times = dict.fromkeys(("first_dequeued_at", "dequeued_at", "finished_at"), first)
    others = {"outcome": f.lit("completed"), "attempts": f.lit(1), "created_at": f.timestamp_millis("due")}
    return made.withColumns(times | others | {"dequeue_at": f.col("due")})


def served(channel: str, seconds: Sequence[int], each: int) -> Iterator[Waited]:
    """Messages that wait from the start; `each` of them are served in each of these seconds."""
    for second in seconds:
        for number in range(each):
            yield channel, -1, second + number / each


def test_a_starved_channel(spark: SparkSession) -> None:
    """One channel gets everything, the other nothing for 11 seconds."""
    rows = [*served("loud", range(12), 6), ("starved", -1, 11), ("alone", 0.1, 0.2)]
    found = report(spark, waited(spark, rows), bucket=1)
    loud, *_ = found.tenants
    starved = next(tenant for tenant in found.tenants if tenant.channel == "starved")
    alone = next(tenant for tenant in found.tenants if tenant.channel == "alone")
    assert (loud.share, loud.fair_share) == pytest.approx((1, 0.5))
    assert (starved.share, starved.fair_share) == pytest.approx((0, 0.5))
    assert (alone.share, alone.fair_share) == (None, None)
    assert (found.totals.jain, found.totals.jain_best) == pytest.approx((0.5, 1))
    assert found.totals.contended == 11 * 6


def test_equal_service_is_fair(spark: SparkSession) -> None:
    """Three channels are served equally. With two messages for four channels per bucket, 1 is impossible."""
    alike = [*served("a", range(9), 4), *served("b", range(9), 4), *served("c", range(5), 4)]
    found = report(spark, waited(spark, alike), bucket=1)
    assert found.totals.jain == found.totals.jain_best == pytest.approx(1)
    for tenant in found.tenants:
        assert tenant.share == pytest.approx(tenant.fair_share)
    one_each = [(f"c{turn % 4}", -1.0, turn / 2) for turn in range(40)]
    found = report(spark, waited(spark, one_each), bucket=1)
    assert found.totals.jain == found.totals.jain_best == pytest.approx(0.5)


def test_one_channel_does_not_compete(spark: SparkSession) -> None:
    found = report(spark, waited(spark, list(served("a", range(9), 4))), bucket=1)
    assert (found.tenants[0].share, found.totals.jain, found.totals.contended) == (None, None, 0)


def test_the_default_makes_200_buckets_of_at_least_a_second(spark: SparkSession) -> None:
    assert report(spark, waited(spark, [("a", 0, 0), ("a", 0, 100)])).bucket_ms == 1_000
    found = report(spark, waited(spark, [("a", 0, 0), ("a", 0, 86_400)]))
    assert found.bucket_ms == 432_000
    assert len(found.flows[0].completed) == 201


def test_invalid_arguments_of_a_report(spark: SparkSession) -> None:
    rows = waited(spark, [("a", 0, 0), ("a", 0, 86_400)])
    for name in TYPES:
        with pytest.raises(InvalidArgument, match=f"{name} is missing"):
            report(spark, rows.drop(name))
    with pytest.raises(InvalidArgument, match="created_at is timestamp_ntz, not timestamp"):
        report(spark, rows.withColumn("created_at", f.col("created_at").cast("timestamp_ntz")))
    with pytest.raises(InvalidTime, match="no time zone"):
        report(spark, rows, datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidArgument, match="too short"):
        report(spark, rows, bucket=0)
    with pytest.raises(InvalidArgument, match="86,401 buckets, and at most 10,000") as caught:
        report(spark, rows, bucket=1)
    assert caught.value.hint == "give a bucket of 8.641 s or more"
    assert report(spark, rows, bucket=8.641).totals.messages == 2


def test_json_and_parquet_have_all_numbers(spark: SparkSession, tmp_path: Path) -> None:
    rows = [*served("loud", range(4), 3), ('<script> \\ " 🦜 \x01', -1, 3)]
    found = report(spark, waited(spark, rows), bucket=1)
    read = json.loads(found.to_json())
    assert read["tenants"] == [asdict(tenant) for tenant in found.tenants]
    assert read["totals"] == asdict(found.totals)
    assert datetime.fromisoformat(read["began_at"]) == found.began_at
    assert found.began_at is not None
    path = tmp_path / "tenants.parquet"
    found.write_parquet(path)
    assert parquet.read_table(path).to_pylist() == read["tenants"]
    empty = report(spark, waited(spark, rows).where("FALSE"))
    empty.write_parquet(path)
    assert parquet.read_table(path).num_rows == 0
    assert json.loads(empty.to_json())["tenants"] == []


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)
