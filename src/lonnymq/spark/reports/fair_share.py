"""How much each channel was served while others waited too.

Time is divided into buckets. A channel is *backlogged* in a bucket if it had messages waiting at the start
and at the end of the bucket. A message waits from the time it is due, or created if that is later, until its
first dequeue, or until it is cancelled before that.

Where two or more channels are backlogged, they compete. A channel's share is the number of its messages that
were served (first dequeues), divided by that number for all competing channels. Its fair share is 1 divided
by the number of competing channels. Both are averaged over the buckets in which it competed, weighted by the
messages served. A channel that never competed has neither.

Jain's index of a bucket is (sum of x)² / (n * sum of x²), where x is what each of the n competing channels
was served: 1 when all got the same, 1/n when one got everything. It is averaged in the same way. A bucket
with fewer served messages than channels cannot reach 1; `jain_best` is the index of an even distribution.

Limits: messages that still wait are not in a history. A channel that is paused, or limited by its own policy,
counts as backlogged and rightly gets less than the others. Every weight and every cost counts as 1, so a
channel with a higher weight rightly gets more, and one with higher costs less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

CONTENDERS = 2


@dataclass(frozen=True, slots=True)
class Bucket:
    """One time bucket: how many channels were backlogged, and how many of their messages were served."""

    backlogged: int
    served: int
    squares: int

    @property
    def contended(self) -> int:
        """The messages that were served while channels competed."""
        return self.served if self.backlogged >= CONTENDERS else 0

    @property
    def jain(self) -> float:
        return self.served**2 / (self.backlogged * self.squares)

    @property
    def jain_best(self) -> float:
        each, more = divmod(self.served, self.backlogged)
        squares = more * (each + 1) ** 2 + (self.backlogged - more) * each**2
        return self.served**2 / (self.backlogged * squares)


@dataclass(frozen=True)
class FairShares:
    """`shares` has the share and the fair share of each channel that competed."""

    shares: dict[str, tuple[float, float]]
    jain: float | None
    jain_best: float | None
    contended: int


def fair_shares(
    spark: SparkSession, moments: DataFrame, began_ms: int, bucket_ms: int, buckets: int
) -> FairShares:
    """From rows (channel, arrived, left, was_served). Times are in milliseconds; the wait ends at `left`."""
    stretches = _stretches(moments, began_ms, bucket_ms)
    found = _buckets(stretches, buckets)
    shares = {row.channel: (row.share, row.fair) for row in _shares(spark, stretches, found).collect()}
    contended = sum(bucket.contended for bucket in found)
    competing = [bucket for bucket in found if bucket.contended]
    return FairShares(
        shares,
        sum(b.jain * b.contended for b in competing) / contended if contended else None,
        sum(b.jain_best * b.contended for b in competing) / contended if contended else None,
        contended,
    )


def bucket_of(at: Column, began_ms: int, bucket_ms: int) -> Column:
    """The number of the bucket that contains a time; -1 for a time before the first bucket."""
    return f.greatest(f.floor((at - began_ms) / bucket_ms), f.lit(-1)).cast("int")


def _stretches(moments: DataFrame, began_ms: int, bucket_ms: int) -> DataFrame:
    """Rows (channel, first, last, served): backlogged from bucket `first` to `last`, and served in `first`.

    There is one row per bucket in which something changed; it covers the buckets until the next change.
    """
    changes = _counted(moments, bucket_of(f.col("arrived"), began_ms, bucket_ms), f.lit(1), f.lit(0))
    leaving = _counted(
        moments, bucket_of(f.col("left"), began_ms, bucket_ms), f.lit(-1), f.col("was_served").cast("int")
    )
    of_channel = Window.partitionBy("channel").orderBy("bucket")
    waiting = (
        changes.unionByName(leaving)
        .groupBy("channel", "bucket")
        .agg(f.sum("change").alias("change"), f.sum("served").alias("served"))
        .withColumn("waiting", f.sum("change").over(of_channel))
        .withColumn("next", f.lead("bucket").over(of_channel))
    )
    is_backlogged = (f.col("bucket") >= 0) & (f.col("waiting") - f.col("change") > 0)
    return (
        waiting.where(f.col("waiting") > 0)
        .select(
            "channel",
            f.when(is_backlogged, f.col("bucket")).otherwise(f.col("bucket") + 1).alias("first"),
            (f.col("next") - 1).alias("last"),
            f.when(is_backlogged, f.col("served")).otherwise(0).alias("served"),
        )
        .where(f.col("first") <= f.col("last"))
    )


def _counted(moments: DataFrame, bucket: Column, change: Column, served: Column) -> DataFrame:
    return moments.groupBy("channel", bucket.alias("bucket")).agg(
        f.sum(change).alias("change"), f.sum(served).alias("served")
    )


def _buckets(stretches: DataFrame, buckets: int) -> list[Bucket]:
    squares = f.col("served") * f.col("served")
    begins = f.struct(
        f.col("first").alias("bucket"), f.lit(1).alias("change"), "served", squares.alias("squares")
    )
    nothing = f.lit(0).cast("long")
    ends = f.struct(
        (f.col("last") + 1).alias("bucket"),
        f.lit(-1).alias("change"),
        nothing.alias("served"),
        nothing.alias("squares"),
    )
    changes = stretches.select(f.inline(f.array(begins, ends))).groupBy("bucket").sum()
    rows: dict[int, Row] = {row["bucket"]: row for row in changes.collect()}

    def each() -> Iterator[Bucket]:
        backlogged = 0
        for row in map(rows.get, range(buckets)):
            backlogged += row["sum(change)"] if row else 0
            yield Bucket(backlogged, row["sum(served)"] if row else 0, row["sum(squares)"] if row else 0)

    return list(each())


def _shares(spark: SparkSession, stretches: DataFrame, buckets: Sequence[Bucket]) -> DataFrame:
    """The sum over a stretch is the difference of two running sums."""
    served = accumulate((b.contended for b in buckets), initial=0)
    fair = accumulate((b.contended / (b.backlogged or 1) for b in buckets), initial=0.0)
    is_contended = [*(b.contended > 0 for b in buckets), False]
    sums = f.broadcast(
        spark.createDataFrame(
            list(zip(range(len(buckets) + 1), served, fair, is_contended, strict=True)),
            "bucket int, served long, fair double, is_contended boolean",
        )
    )
    start, end = sums.alias("start"), sums.alias("end")
    return (
        stretches.alias("stretch")
        .join(start, f.col("start.bucket") == f.col("stretch.first"))
        .join(end, f.col("end.bucket") == f.col("stretch.last") + 1)
        .groupBy("stretch.channel")
        .agg(
            f.sum(f.when(f.col("start.is_contended"), f.col("stretch.served")).otherwise(0)).alias("own"),
            f.sum(f.col("end.served") - f.col("start.served")).alias("all"),
            f.sum(f.col("end.fair") - f.col("start.fair")).alias("fair"),
        )
        .where(f.col("all") > 0)
        .select(
            "channel",
            (f.col("own") / f.col("all")).alias("share"),
            (f.col("fair") / f.col("all")).alias("fair"),
        )
    )
