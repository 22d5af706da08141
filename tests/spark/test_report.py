"""The numbers of the report, compared with PostgreSQL's own and with numbers computed by hand."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console

from lonnymq.errors import InvalidArgument, InvalidTime
from lonnymq.spark.reports.build import PAST_RUNS, TYPES, Report, report
from lonnymq.spark.reports.entitled import POLICY_COLUMNS
from tests.clock import FakeClock
from tests.invariants import dequeue, dispatch

CHANNELS = ("acme", "bluebird", "zoë 🦜 株式会社", "<script>alert(1)</script>", "'; DROP TABLE message; --")
ZONES = ("Pacific/Kiritimati", "America/St_Johns")
BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
RUNS = f"past_runs {PAST_RUNS['past_runs']}"
MOMENTS = """
    WITH chosen AS (
        SELECT * FROM history
        WHERE (finished_at >= %(since)s::BIGINT) IS NOT FALSE
            AND (finished_at < %(until)s::BIGINT) IS NOT FALSE),
    moment AS (
        SELECT *, CASE WHEN due <= first THEN first - due END AS wait,
            finished_at - dequeued_at + COALESCE(
                (SELECT SUM(past_runs[n] - past_runs[n - 1])
                 FROM generate_series(3, cardinality(past_runs), 3) n), 0) AS work
        FROM (
            SELECT *, GREATEST(created_at, COALESCE(past_runs[1], dequeue_at)) AS due,
                COALESCE(past_runs[2], first_dequeued_at) AS first
            FROM chosen) c),
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
    COALESCE(SUM(work) FILTER (WHERE outcome IN ('completed', 'dead')), 0)::FLOAT8 / 1000
        AS work_s"""


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
    conn: psycopg.Connection, since: int | None = None, until: int | None = None
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    given = {"since": since, "until": until}
    with conn.cursor(row_factory=dict_row) as cursor:

        def ask(query: str) -> list[dict[str, Any]]:
            return cursor.execute(query.encode(), given).fetchall()

        of_all = ask(f"{MOMENTS} SELECT {COUNTS} FROM moment")[0]
        each = ask(f"{MOMENTS} SELECT channel, {COUNTS} FROM moment GROUP BY 1")
        return {row["channel"]: row for row in each}, of_all


def check(found: Report, expected: tuple[dict[str, dict[str, Any]], dict[str, Any]]) -> None:
    """All numbers that do not depend on buckets."""
    each, of_all = expected
    assert {tenant.channel for tenant in found.tenants} == set(each)
    for tenant in found.tenants:
        assert each[tenant.channel].items() <= asdict(tenant).items()
    assert of_all.items() <= asdict(found.totals).items()
    assert sum(tenant.share or 0 for tenant in found.tenants) == pytest.approx(1)
    assert sum(tenant.entitlement or 0 for tenant in found.tenants) == pytest.approx(1)


def test_all_numbers_are_those_of_postgresql(
    spark: SparkSession, conn: psycopg.Connection, clock: FakeClock, history: DataFrame, tmp_path: Path
) -> None:
    """One day of traffic, reported with several buckets, for a part of the time, and in other time zones."""
    simulate_day(conn, clock)
    later = conn.execute("SELECT COUNT(*) FROM history WHERE dequeue_at > first_dequeued_at").fetchone()
    assert later is not None
    assert later[0] > 10, "too few messages were retried with a delay"
    found = report(spark, history, bucket=7.3)
    check(found, computed_by_postgresql(conn))
    totals = found.totals
    assert all([totals.completed, totals.dead, totals.cancelled, totals.retries]), "an outcome is missing"
    assert sum(sum(flow.completed) for flow in found.flows) == totals.completed
    check_part_of_the_time(spark, conn, history)
    check_time_zones_and_files(spark, conn, clock, history, tmp_path)


def check_part_of_the_time(spark: SparkSession, conn: psycopg.Connection, history: DataFrame) -> None:
    times = [row[0] for row in conn.execute("SELECT finished_at FROM history ORDER BY 1")]
    since, until = times[len(times) // 4], times[len(times) * 3 // 4]
    found = report(spark, history, _time(since), _time(until))
    assert 0 < found.totals.messages < len(times)
    check(found, computed_by_postgresql(conn, since, until))
    assert (found.began_at, found.bucket_ms) == (_time(since), 1_000)
    assert report(spark, history, until=_time(times[0])).tenants == ()


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
    check(found[0], computed_by_postgresql(conn, since))


def rounded(found: Report) -> Report:
    def cut(value: float | None) -> float | None:
        return None if value is None else round(value, 12)

    tenants = tuple(
        replace(one, share=cut(one.share), entitlement=cut(one.entitlement)) for one in found.tenants
    )
    totals = replace(found.totals, jain=cut(found.totals.jain), misallocated=cut(found.totals.misallocated))
    return replace(found, tenants=tenants, totals=totals, series=())


def test_an_empty_history(spark: SparkSession, conn: psycopg.Connection, history: DataFrame) -> None:
    found = report(spark, history)
    assert (found.tenants, found.flows, found.began_at, found.ended_at) == ((), (), None, None)
    totals = asdict(found.totals)
    assert {name for name, value in totals.items() if value is None} == {
        "wait_p50_ms", "wait_p95_ms", "wait_p99_ms", "throughput", "jain", "misallocated",
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
    check(found, computed_by_postgresql(conn))
    tenant = found.tenants[0]
    assert (tenant.wait_p50_ms, tenant.wait_p99_ms, tenant.throughput) == (1500, 1500, None)
    assert (tenant.share, tenant.entitlement, found.totals.misallocated) == (1, 1, 0)
    assert found.began_at == found.ended_at == BEGAN + timedelta(milliseconds=1_500)


def test_messages_that_were_never_dequeued(
    spark: SparkSession, conn: psycopg.Connection, clock: FakeClock, history: DataFrame
) -> None:
    conn.execute("SELECT message_create('acme', 'x'), message_create('acme', 'x', %s)", (clock.at + 90_000,))
    clock.advance(5_000)
    conn.execute("SELECT message_cancel_many(ARRAY(SELECT id FROM message))")
    found = report(spark, history)
    tenant = found.tenants[0]
    assert (tenant.share, found.totals.misallocated) == (None, None)
    assert (tenant.cancelled, tenant.waits, tenant.wait_p50_ms, tenant.work_s) == (2, 0, None, 0)


Waited = tuple[str, float, float | None]
ALWAYS = -1.0
FAIRNESS_S = 10


def waited(spark: SparkSession, rows: Sequence[Waited], cost: int = 1) -> DataFrame:
    """A history of messages, given as channel, due time and first dequeue, in seconds."""
    made = spark.createDataFrame(
        [(channel, round(due * 1000), round((first or 0) * 1000)) for channel, due, first in rows],
        "channel string, due long, first long",
    )
    first = f.timestamp_millis("first")
    times = dict.fromkeys(("first_dequeued_at", "dequeued_at", "finished_at"), first)
    others = {"outcome": f.lit("completed"), "attempts": f.lit(1), "created_at": f.timestamp_millis("due")}
    message = {"lane": f.lit("default"), "cost": f.lit(cost), "id": f.monotonically_increasing_id()}
    return made.withColumns(times | others | message | {"dequeue_at": f.col("due")}).drop("due", "first")


def still_waiting(spark: SparkSession, channels: dict[str, int]) -> DataFrame:
    """Rows of the table `waiting` of a lake."""
    rows = [(channel, ALWAYS, None) for channel, number in channels.items() for _ in range(number)]
    made = waited(spark, rows).drop("finished_at", "outcome", "attempts")
    return made.withColumns({"dequeued_at": f.lit(None).cast("timestamp"), "id": f.col("id") + 10**9})


def served(channel: str, each: int, seconds: int = FAIRNESS_S) -> Iterator[Waited]:
    """Messages that wait from the start; `each` of them are served in each of these seconds."""
    for number in range(seconds * each):
        yield channel, ALWAYS, (number + 0.5) / each


def policies(spark: SparkSession, **of_channels: dict[str, Any]) -> DataFrame:
    kinds = ", ".join(f"{name} {kind}" for name, kind in POLICY_COLUMNS.items())
    rows = [
        {"id": 1, "at": BEGAN - timedelta(days=365 * 90), "scope": "channel", "channel": name, **values}
        for name, values in of_channels.items()
    ]
    return spark.createDataFrame([tuple(row.get(name) for name in POLICY_COLUMNS) for row in rows], kinds)


def test_entitlements_computed_by_hand(spark: SparkSession) -> None:
    """Of two tenants that compete, one gets three times as much. A third is held back by its rate, a fourth
    is paused, and a fifth gets all it asks for, at the start and at the end.
    """
    history = waited(
        spark,
        [
            *served("big", 6),
            *served("starved", 2),
            *served("slow", 1),
            ("small", 0, 0),
            ("small", FAIRNESS_S - 0.001, FAIRNESS_S - 0.001),
        ],
    ).persist()
    waiting = still_waiting(spark, {"big": 90, "starved": 90, "slow": 20, "paused": 5}).persist()
    limits: dict[str, dict[str, Any]] = {
        "slow": {"release_interval_us": 1_000_000},
        "paused": {"paused": True},
    }
    found = report(spark, history, policies=policies(spark, **limits), waiting=waiting, bucket=1)
    of = {tenant.channel: tenant for tenant in found.tenants}
    expected = {"big": (60, 40), "starved": (20, 40), "slow": (10, 10), "small": (2, 2), "paused": (0, 0)}
    for channel, (got, entitled) in expected.items():
        assert of[channel].share == pytest.approx(got / 92), channel
        assert of[channel].entitlement == pytest.approx(entitled / 92, rel=1e-3), channel
    assert {name: tenant.held_s for name, tenant in of.items() if tenant.held_s} == {"slow": 10, "paused": 10}
    totals = found.totals
    assert (totals.competed, totals.messages) == (2, 92)
    assert totals.jain == pytest.approx(0.8, rel=1e-3)  # of 60 / 40 and 20 / 40
    assert totals.misallocated == pytest.approx((20 - 1) / 92, rel=1e-3)
    series = {one.channel: one for one in found.series}
    assert series["big"].share[1:9] == pytest.approx([6 / 9] * 8)
    assert series["starved"].entitlement[1:9] == pytest.approx([4 / 9] * 8, rel=1e-3)
    assert found.knows_limits
    check_without_limits(spark, history, waiting)
    check_weights_costs_and_lanes(spark, history, waiting, limits)


def check_without_limits(spark: SparkSession, history: DataFrame, waiting: DataFrame) -> None:
    """All that wait compete, and the report says so."""
    found = report(spark, history, waiting=waiting, bucket=1)
    of = {tenant.channel: tenant for tenant in found.tenants}
    assert {tenant.held_s for tenant in found.tenants} == {0}
    assert of["slow"].entitlement == of["starved"].entitlement
    assert (found.knows_limits, found.totals.competed) == (False, 4)
    out = StringIO()
    found.print(Console(file=out, width=400))
    assert "The limits of the tenants are not known" in out.getvalue()
    assert "The limits of the tenants are not known" in found.to_html()


def check_weights_costs_and_lanes(
    spark: SparkSession, history: DataFrame, waiting: DataFrame, limits: dict[str, dict[str, Any]]
) -> None:
    """The same service is fair if the one has three times the weight; or if the messages of the other cost
    three times as much, whatever happens in another lane, and whatever has finished meanwhile.
    """
    heavier = policies(spark, **limits, big={"weight": 3.0})
    costs = f.when(f.col("channel") == "starved", 3).otherwise(1)
    mail = waited(spark, list(served("big", 3))).withColumn("lane", f.lit("mail"))
    finished = waited(spark, [("paused", FAIRNESS_S, FAIRNESS_S + 5)]).withColumn("id", f.lit(5).cast("long"))
    dearer = history.withColumn("cost", costs)
    for rows, by in (
        (history, heavier),
        (dearer.unionByName(mail).unionByName(finished), policies(spark, **limits)),
    ):
        unfinished = waiting.withColumn("cost", costs) if rows is not history else waiting
        found = report(spark, rows, until=_time(10_000), policies=by, waiting=unfinished, bucket=1)
        assert found.totals.jain == pytest.approx(1, rel=1e-3)
        assert found.totals.misallocated == pytest.approx(0, abs=1e-3)


def test_every_attempt_counts(spark: SparkSession) -> None:
    """A message is retried after a second, and takes half a second each time."""
    columns = f"id long, channel string, lane string, cost int, outcome string, attempts int, {RUNS}"
    runs = [{"due_at": 0, "dequeued_at": 2_000, "ended_at": 2_500}]
    made = spark.createDataFrame(
        [
            (1, "acme", "default", 2, "completed", 2, runs, 0, 3_500, 2_000, 4_000, 4_500),
            (2, "other", "default", 1, "completed", 1, None, 0, 0, 0, 0, 5_000),
        ],
        f"{columns}, created long, dequeue_at long, first long, last long, finished long",
    )
    times = {"created_at": "created", "first_dequeued_at": "first", "dequeued_at": "last"}
    times |= {"finished_at": "finished"}
    history = made.withColumns({name: f.timestamp_millis(column) for name, column in times.items()})
    acme = report(spark, history).tenants[0]
    assert (acme.channel, acme.wait_p50_ms, acme.work_s, acme.share) == ("acme", 2_000, 1.0, 4 / 5)
    older = report(spark, history.drop("past_runs")).tenants[0]
    assert (older.wait_p50_ms, older.work_s, older.share) == (None, 0.5, 4 / 5)


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
    with pytest.raises(InvalidArgument, match="past_runs is string, not array"):
        report(spark, rows.withColumn("past_runs", f.lit("")))
    with pytest.raises(InvalidArgument, match="these rows are not of the log of policies"):
        report(spark, rows, policies=rows)
    with pytest.raises(InvalidArgument, match="these rows are not of the waiting messages: id is missing"):
        report(spark, rows, waiting=rows.drop("id"))
    with pytest.raises(InvalidTime, match="no time zone"):
        report(spark, rows, datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidArgument, match="too short"):
        report(spark, rows, bucket=0)
    with pytest.raises(InvalidArgument, match="86,401 buckets, and at most 10,000") as caught:
        report(spark, rows, bucket=1)
    assert caught.value.hint == "give a bucket of 8.641 s or more"


def test_json_and_parquet_have_all_numbers(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Waited] = [*served("loud", 3, 4), ('<script> \\ " 🦜 \x01', -1, 3)]
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
