"""`simulate`: what other settings would have done, for each tenant.

The history is cut into windows where nothing waits. Every scenario and every window is simulated on its own,
in parallel. If a scenario is slower than what happened, messages still wait at the end of a window: that
window and the ones after it are then simulated again as one, until nothing waits at its end. Waits are
counted in histograms, which are added up over the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lonnymq.client.times import EPOCH
from lonnymq.errors import InvalidArgument
from lonnymq.formatting import plural
from lonnymq.rules.policy_log import PolicyLog
from lonnymq.simulation.calibrate import calibrate
from lonnymq.simulation.consumers import Consumers, Pool, lane_groups
from lonnymq.simulation.events import simulate as simulate_runs
from lonnymq.simulation.outcome import RECORDED, TenantWaits, judge
from lonnymq.simulation.runs import most_at_once
from lonnymq.simulation.scenario import ACTUAL, Scenario
from lonnymq.spark.simulation.history_runs import POLICIES, check_columns, history_runs, waiting_runs
from lonnymq.spark.simulation.parts import HISTOGRAMS, Part, histogram_rows, merge, runs_in
from lonnymq.spark.simulation.result import Simulation
from lonnymq.spark.simulation.windows import Windows, buckets, cut, in_windows, sample_times

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

SAMPLE = 5_000
SAMPLE_PARTS = 5


def simulate(
    spark: SparkSession,
    history: DataFrame,
    policies: DataFrame | None,
    scenarios: Sequence[Scenario] = (),
    *,
    waiting: DataFrame | None = None,
    consumers: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    progress: Callable[[str], object] | None = None,
) -> Simulation:
    """Simulate the messages of a history again, with the settings that they had and with those of each
    scenario.

    `history` and `policies` are read with the formats `lonnymq_history` and `lonnymq_policies`, or from an
    archive; `waiting`, the messages that still wait, is a table of an archive. `consumers` is how many
    messages were worked on at once, if you know that it was more than the history shows. `since` and `until`
    select messages by `finished_at`.

        simulate(spark, history, policies, [Scenario("slower", {"acme": {"max_concurrency": 4}})]).print()
    """
    say = progress or (lambda _: None)
    _check_names(scenarios)
    if policies is None:
        raise InvalidArgument(
            "a simulation needs the policies", "read the format lonnymq_policies, or that table of an archive"
        )
    check_columns(policies, POLICIES, "policies")
    log = PolicyLog.of(row.asDict() for row in policies.select(*POLICIES).collect())
    runs = history_runs(history, since, until)
    if waiting is not None:
        runs = runs.unionByName(waiting_runs(waiting, runs))
    runs = runs.persist(StorageLevel.DISK_ONLY)
    try:
        return _Job(spark, runs, log, say).simulate(scenarios, consumers)
    finally:
        runs.unpersist()


def _check_names(scenarios: Iterable[Scenario]) -> None:
    seen = {ACTUAL, RECORDED}
    for scenario in scenarios:
        if scenario.name in seen:
            raise InvalidArgument(
                f"a scenario cannot be named {scenario.name!r}: the name is taken", "give each its own name"
            )
        seen.add(scenario.name)


@dataclass(frozen=True)
class _Job:
    spark: SparkSession
    runs: DataFrame
    log: PolicyLog
    say: Callable[[str], object]

    def simulate(self, scenarios: Sequence[Scenario], count: int | None) -> Simulation:
        self.say("looking for times when nothing waits")
        found = buckets(self.runs)
        if not found:
            raise InvalidArgument(
                "the history has no messages that ran in this time",
                "archive the history first (the queue must keep one), or choose another time",
            )
        known = {row.channel for row in self.runs.where("is_counted").select("channel").distinct().collect()}
        for scenario in scenarios:
            scenario.check_channels(known)
        windows = cut(found)
        split = in_windows(self.runs, windows).persist(StorageLevel.DISK_ONLY)
        try:
            self.say("calibrating")
            consumers = self._consumers(split, count)
            sample = runs_in(self._sample(sample_times(found, windows, SAMPLE, SAMPLE_PARTS)).toPandas())
            used = [not windows.is_held_out(run.due_at) for run in sample]
            consumers = calibrate(sample, self.log, used, consumers)
            waits = self._waits(split, windows, [Scenario(ACTUAL), *scenarios], consumers)
        finally:
            split.unpersist()
        tenants, refusal = judge(waits, scenarios)
        began, ended = found[0].start_ms, max(bucket.began_ms for bucket in found)
        return Simulation(
            tenants, tuple(scenarios), consumers, len(windows.starts), _time(began), _time(ended), refusal
        )

    def _consumers(self, split: DataFrame, count: int | None) -> Consumers:
        """As many per group of lanes as ever worked at once."""
        served = self.runs.where("is_counted").select("lane", "consumer").distinct().collect()
        groups = lane_groups(sorted((row.lane, row.consumer or "") for row in served))

        def most(part: pd.DataFrame) -> pd.DataFrame:
            import pandas as pd

            mine = runs_in(part)
            found = [most_at_once(run for run in mine if run.lane in lanes) for lanes in groups]
            return pd.DataFrame({"place": range(len(groups)), "n": found})

        rows = (
            split.groupBy("window")
            .applyInPandas(most, "place int, n int")
            .groupBy("place")
            .max("n")
            .collect()
        )
        counts = {row[0]: row[1] for row in rows}
        pools = tuple(Pool(max(1, counts.get(place, 1)), lanes) for place, lanes in enumerate(groups))
        known = Consumers(pools, pickup_ms=5)
        return known if count is None else known.with_count(count)

    def _sample(self, times: Sequence[tuple[int, int]]) -> DataFrame:
        due = f.col("due_at")
        is_chosen = f.lit(False)  # noqa: FBT003
        for start, end in times:
            is_chosen |= (due >= start) & (due < end)
        return self.runs.where(is_chosen).withColumn("is_running", f.lit(False))  # noqa: FBT003

    def _waits(
        self, split: DataFrame, windows: Windows, scenarios: Sequence[Scenario], consumers: Consumers
    ) -> dict[str, TenantWaits]:
        """Simulate every scenario in every window, and longer parts where messages still wait at the end of
        one.
        """
        tiles = {
            place: [(window, window) for window in range(len(windows.starts))]
            for place in range(len(scenarios))
        }
        todo = [Part(place, *tile) for place, of_scenario in tiles.items() for tile in of_scenario]
        passes = []
        try:
            while todo:
                self.say(f"simulating {len(todo):,} parts of {plural(len(scenarios), 'scenario')}")
                passes.append(
                    self._simulated(split, windows, scenarios, consumers, todo).persist(
                        StorageLevel.DISK_ONLY
                    )
                )
                ends = passes[-1].where("name IS NULL").collect()
                late = {Part(row.scenario, row.first, row.last) for row in ends if row.bin}
                todo = [part for place in tiles for part in merge(place, tiles[place], late)]
            final = [(place, *tile) for place, of_scenario in tiles.items() for tile in of_scenario]
            return self._added_up(passes, final)
        finally:
            for one in passes:
                one.unpersist()

    def _simulated(
        self,
        split: DataFrame,
        windows: Windows,
        scenarios: Sequence[Scenario],
        consumers: Consumers,
        parts: Sequence[Part],
    ) -> DataFrame:
        """Rows of the histograms, and one without a name per part, whose bin is 1 if messages wait at its
        end.
        """
        chosen = [(part.scenario, part.first, part.last, window) for part in parts for window in part.windows]
        places = self.spark.createDataFrame(chosen, "scenario int, first int, last int, window int")
        # What was running when the part began; inside of it, these are ordinary runs.
        is_wanted = ~f.col("is_running") | (f.col("window") == f.col("first"))
        work = split.join(f.broadcast(places), "window").where(is_wanted)
        log = self.log

        def run(key: tuple[int, int, int], part: pd.DataFrame) -> pd.DataFrame:
            place, first, last = map(int, key)
            scenario = scenarios[place]
            served_by = consumers if scenario.consumers is None else consumers.with_count(scenario.consumers)
            mine = runs_in(part)
            began = simulate_runs(mine, scenario.policies(log), served_by)
            return histogram_rows(mine, began, scenario.name, (place, first, last), windows)

        return work.groupBy("scenario", "first", "last").applyInPandas(run, HISTOGRAMS)

    def _added_up(
        self, passes: Sequence[DataFrame], final: Sequence[tuple[int, int, int]]
    ) -> dict[str, TenantWaits]:
        places = f.broadcast(self.spark.createDataFrame(final, "scenario int, first int, last int"))
        rows = reduce(DataFrame.unionByName, passes).where("name IS NOT NULL")
        sums = (
            rows.join(places, ["scenario", "first", "last"])
            .groupBy("name", "channel", "is_held_out", "bin")
            .agg(f.sum("n").alias("n"))
        )
        waits: dict[str, TenantWaits] = {}
        for row in sums.collect():
            found = waits.setdefault(row.channel, TenantWaits())
            found.add(row.name, row.bin, row.n, is_held_out=row.is_held_out)
        return waits


def _time(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at_ms)
