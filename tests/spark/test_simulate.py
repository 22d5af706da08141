"""Other settings, simulated on Spark: compared with the simulation of the whole time in one piece."""

import doctest
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lonnymq.errors import InvalidArgument
from lonnymq.rules.policy_log import PolicyLog
from lonnymq.simulation.consumers import Consumers, Pool
from lonnymq.simulation.events import simulate as simulate_runs
from lonnymq.simulation.runs import Run
from lonnymq.simulation.scenario import Scenario
from lonnymq.simulation.waits import Histogram
from lonnymq.spark.simulation import windows
from lonnymq.spark.simulation.run import simulate
from tests.cli.running import run as run_command

BEGAN_MS = 1_900_000_000_000
CONSUMERS = Consumers((Pool(6, frozenset({"default"})),), turnaround_ms=2, dispatch_ms=40, pickup_ms=5)
LIMITS: dict[str, dict[str, Any]] = {
    "eu.west": {"max_concurrency": 2},
    "rated": {"release_interval_us": 200_000, "burst": 3},
}
HISTORY = """id bigint, channel string, outcome string, created_at timestamp, dequeue_at bigint,
    dequeued_at timestamp, finished_at timestamp, attempts int, consumer string, lane string,
    priority int, cost int,
    past_runs array<struct<due_at: bigint, dequeued_at: bigint, ended_at: bigint>>"""
WAITING = """id bigint, channel string, lane string, priority int, cost int, attempts int,
    created_at timestamp,
    dequeue_at bigint, dequeued_at timestamp, taken_at timestamp"""
POLICIES = """id bigint, at timestamp, scope string, channel string, max_concurrency int,
    release_interval_us bigint, burst int, paused boolean, weight double, is_deleted boolean"""


def policy_rows() -> list[dict[str, Any]]:
    nothing = dict.fromkeys(("max_concurrency", "release_interval_us", "burst", "paused", "weight"))
    at = moment(BEGAN_MS - 1000)
    return [
        {"id": n, "at": at, "scope": "channel", "channel": channel, **nothing, "is_deleted": False, **limits}
        for n, (channel, limits) in enumerate(LIMITS.items())
    ]


def moment(at_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)


def traffic() -> list[Run]:
    """Some minutes of work and rest. Some messages fail once, and come back a second later."""
    chance = random.Random(3)
    runs = []
    number = 0
    for round_ in range(4):
        at = BEGAN_MS + 180_000 * round_
        for _ in range(700):
            at += chance.randint(0, 40)
            number += 1
            channel = chance.choices(["bulk", "eu.west", "rated"], [6, 2, 1])[0]
            took = chance.randint(40, 160)
            runs.append(Run(number, 0, channel, "default", 0, 1, at, at, at, at + took))
            if number % 50 == 0:
                again = at + took + 1000
                runs.append(
                    runs[-1]._replace(
                        number=1,
                        dequeue_at=again,
                        due_at=again,
                        began_at=again,
                        ended_at=again + took,
                        is_counted=False,
                    )
                )
    return runs


def served(runs: Sequence[Run], log: PolicyLog) -> list[Run]:
    """What the queue would have recorded."""
    began = simulate_runs(runs, log, CONSUMERS)
    found: list[Run] = []
    ended: dict[int, int] = {}
    for run, at in sorted(zip(runs, began, strict=True), key=lambda pair: pair[0].number):
        assert at is not None
        due = run.due_at if run.number == 0 else ended[run.message] + 1000
        ended[run.message] = at // 1000 + run.took_ms
        found.append(
            run._replace(dequeue_at=due, due_at=due, began_at=at // 1000, ended_at=ended[run.message])
        )
    return found


def history_rows(runs: Sequence[Run]) -> list[tuple[Any, ...]]:
    rows: dict[int, tuple[Any, ...]] = {}
    for run in runs:
        before = rows.get(run.message)
        past = [(before[4], run_ms(before[5]), run_ms(before[6]))] if before else None
        created = before[3] if before else moment(run.due_at)
        rows[run.message] = (
            run.message,
            run.channel,
            "completed",
            created,
            run.dequeue_at,
            moment(run.began_at),
            moment(run.ended_at),
            1 + run.number,
            "worker",
            "default",
            0,
            1,
            past,
        )
    return list(rows.values())


def run_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "LEAST_RUNS", 500)


@pytest.fixture(scope="module")
def recorded() -> list[Run]:
    return served(traffic(), PolicyLog.of(policy_rows()))


@pytest.fixture(scope="module")
def history(spark: SparkSession, recorded: list[Run]) -> DataFrame:
    return spark.createDataFrame(history_rows(recorded), HISTORY)


@pytest.fixture(scope="module")
def policies(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(policy_rows(), POLICIES)


def p95(runs: Sequence[Run], scenario: Scenario, channel: str) -> float:
    began = simulate_runs(runs, scenario.policies(PolicyLog.of(policy_rows())), CONSUMERS)
    found = zip(runs, began, strict=True)
    waits = [at / 1000 - run.due_at for run, at in found if at and run.channel == channel and run.is_counted]
    return Histogram.of(waits).quantile(0.95)


def test_scenarios(spark: SparkSession, recorded: list[Run], history: DataFrame, policies: DataFrame) -> None:
    slower = Scenario("slower", {"eu.west": {"max_concurrency": 1}, "bulk": {"rate": "13/s"}})
    faster = Scenario("faster", {"rated": {"rate": 0}, "eu.west": {"max_concurrency": 4}}, consumers=8)
    stopped = Scenario("stopped", {"rated": {"paused": True}})
    ended = moment(max(run.ended_at for run in recorded))
    late = [
        (n, "bulk", "default", 0, 1, 0, ended, run_ms(ended), None, ended) for n in range(10**6, 10**6 + 3)
    ]
    waiting = spark.createDataFrame(late, WAITING)  # work that does not count
    found = simulate(spark, history, policies, [slower, faster, stopped], waiting=waiting)
    assert found.refusal is None
    assert found.windows > 1
    assert found.consumers.count == 6
    tenants = {tenant.channel: tenant for tenant in found.tenants}
    assert {name: tenant.messages for name, tenant in tenants.items()} == {
        name: sum(run.channel == name and run.is_counted for run in recorded) for name in tenants
    }
    for tenant in tenants.values():
        assert tenant.refusal is None
        assert tenant.error_p95 is not None
        assert tenant.error_p95 < 0.1
    for channel in ("eu.west", "bulk"):  # what waits at the end of a window delays the next one
        answer = tenants[channel].scenarios["slower"].p95_ms
        assert answer == pytest.approx(p95(recorded, slower, channel), rel=0.1)
        assert answer is not None
        assert answer > 10 * (tenants[channel].recorded.p95_ms or 0)
    before, after = tenants["rated"].actual.p95_ms, tenants["rated"].scenarios["faster"].p95_ms
    assert before is not None
    assert after is not None
    assert after < before / 5
    stopped_waits = tenants["rated"].scenarios["stopped"]
    assert (stopped_waits.p50_ms, stopped_waits.unserved) == (None, tenants["rated"].messages)
    page, text = found.to_html(), json.loads(found.to_json())
    assert "slower" in page
    assert "http" not in page.replace("http-equiv", "")
    assert text["tenants"][0]["scenarios"]["slower"]["p95_ms"] == tenants["bulk"].scenarios["slower"].p95_ms


def test_the_command(
    spark: SparkSession,
    history: DataFrame,
    policies: DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    lake, master = str(tmp_path / "lake"), str(spark.sparkContext.master)

    def command(*arguments: str) -> tuple[int, str, str]:
        done = run_command("spark", "simulate", "--master", master, "--lake", lake, *arguments)
        return done.code, done.stdout, done.said

    for setting, hint in {
        "acme": "write CHANNEL.SETTING=VALUE",
        "acme.speed=3": "change one of max_concurrency",
        "acme.max_size=3": "cannot be simulated",
        "acme.max_concurrency=x": "'x' is not a whole number",
        "acme.weight=0": "give 0.001 to 1000",
        "acme.rate=fast": "is not a rate",
    }.items():
        code, _, err = command("--set", setting)
        assert (code, hint in err, "Traceback" in err) == (1, True, False), err
    code, _, err = command("--set", "bulk.weight=2")
    assert (code, "there is no archive in" in err) == (1, True), err
    by_day = history.withColumn("day", f.to_date("finished_at"))
    write_deltalake(f"{lake}/history", by_day.toArrow(), partition_by=["day"])
    code, _, err = command("--set", "bulk.weight=2")
    assert (code, "has no table policies" in err) == (1, True), err
    write_deltalake(f"{lake}/policies", policies.toArrow())
    code, _, err = command("--set", "eu.wes.weight=2")
    assert (code, "did you mean 'eu.west'?" in err) == (1, True), err
    code, _, err = command("--since", "2100-01-01", "--set", "bulk.weight=2")
    assert (code, "no messages that ran in this time" in err) == (1, True), err
    page = tmp_path / "page.html"
    code, out, err = command("--set", "eu.west.max_concurrency=1", "--consumers", "8", "--html", str(page))
    assert code == 0, err
    assert "eu.west" in out
    assert "eu.west.max_concurrency=1, 8 consumers" in page.read_text(encoding="utf-8")


def test_rows_that_are_not_of_the_history(
    spark: SparkSession, policies: DataFrame, history: DataFrame
) -> None:
    with pytest.raises(InvalidArgument, match="past_runs is missing"):
        simulate(spark, history.drop("past_runs"), policies)
    assert not doctest.testmod(windows).failed
    with pytest.raises(InvalidArgument, match="the name is taken"):
        simulate(spark, history, policies, [Scenario("actual")])
