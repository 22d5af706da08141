"""Windows of time that are simulated in parallel: time is cut where nothing waits.

What still runs at a cut goes on in the next window: its slot and its consumer are taken there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

LEAST_RUNS = 2_000
MAX_WINDOWS = 64
BUCKETS = 100_000
SHORTEST_MS = 100
SPANS = 10
FAR_MS = 1 << 60


class Bucket(NamedTuple):
    """The runs that became due in a short time: how many, and when the last of them began."""

    start_ms: int
    runs: int
    began_ms: int


@dataclass(frozen=True)
class Windows:
    """`starts` of the windows and `spans`: the ends of tenths of the runs. Every second tenth is held out of
    the calibration.
    """

    starts: tuple[int, ...]
    spans: tuple[int, ...]

    def end(self, window: int) -> int:
        return self.starts[window + 1] if window + 1 < len(self.starts) else FAR_MS

    def is_held_out(self, due_ms: int) -> bool:
        return bisect_right(self.spans, due_ms) % 2 == 1


def buckets(runs: DataFrame) -> list[Bucket]:
    """In the order of time. They are so long that there are not too many."""
    first, last = runs.agg(f.min("due_at"), f.max("due_at")).collect()[0]
    if first is None:
        return []
    length = max(SHORTEST_MS, (last - first) // BUCKETS + 1)
    number = f.floor((f.col("due_at") - first) / length)
    found = runs.groupBy(number.alias("number")).agg(f.count("*"), f.max("began_at")).collect()
    return sorted(Bucket(first + row[0] * length, row[1], row[2]) for row in found)


def cut(found: Sequence[Bucket], most: int = MAX_WINDOWS) -> Windows:
    """
    >>> cut([Bucket(0, 2000, 50), Bucket(100, 2000, 250), Bucket(200, 2000, 260)]).starts
    (0, 100)
    """
    total = sum(bucket.runs for bucket in found)
    least = max(LEAST_RUNS, total // most)
    starts = [found[0].start_ms]
    runs = busy_until = 0
    for bucket in found:
        if runs >= least and busy_until <= bucket.start_ms:
            starts.append(bucket.start_ms)
            runs = 0
        runs += bucket.runs
        busy_until = max(busy_until, bucket.began_ms)
    return Windows(tuple(starts), tuple(_tenths(found, total)))


def _tenths(found: Iterable[Bucket], total: int) -> Iterable[int]:
    runs, tenth = 0, 1
    for bucket in found:
        if runs >= tenth * total / SPANS:
            yield bucket.start_ms
            tenth = runs * SPANS // total + 1
        runs += bucket.runs


def in_windows(runs: DataFrame, windows: Windows) -> DataFrame:
    """Adds `window` and `is_running`. A run is in the window in which it became due; if it still runs when
    later ones begin, it is also in these.
    """

    def window_of(at: Column) -> Column:
        return f.size(f.filter(f.array(*map(f.lit, windows.starts)), lambda start: start <= at)) - 1

    home, last = window_of(f.col("due_at")), window_of(f.col("ended_at") - 1)
    known = runs.withColumn("home", home).withColumn("last", f.greatest(last, home))
    each = known.withColumn("window", f.explode(f.sequence("home", "last")))
    is_running = f.col("window") > f.col("home")
    return each.withColumn("is_running", is_running).drop("home", "last")


def sample_times(found: Sequence[Bucket], windows: Windows, most: int, parts: int) -> list[tuple[int, int]]:
    """Times from a cut on, spread over the windows, in which about `most` runs became due."""
    step = max(1, len(windows.starts) // parts)
    chosen = range(0, len(windows.starts), step)[:parts]
    each = most // len(chosen)
    times = []
    for window in chosen:
        start, runs = windows.starts[window], 0
        end = windows.end(window)
        for bucket in found[bisect_right(found, start - 1, key=lambda one: one.start_ms) :]:
            if bucket.start_ms >= end:
                break
            if runs >= each:
                end = bucket.start_ms
                break
            runs += bucket.runs
        times.append((start, end))
    return times
