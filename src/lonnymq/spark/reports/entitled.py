"""What each channel was served, and what it was entitled to, in each bucket: see `lonnymq.rules.entitlement`.

Spark counts what happened to each channel in each bucket. Then Python computes the claims of a channel from
its own buckets (`claims`), the entitlements of a bucket from the claims of all channels, per lane, and the
result of a channel from its buckets again. The rows between the steps are pairs of a channel and a bucket in
which something of it waited or was served; none of them goes through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from lonnymq.rules.entitlement import (
    ENOUGH_MESSAGES,
    MAX_TURNAROUND_S,
    BoundBy,
    Claim,
    entitlements,
    jain,
)
from lonnymq.rules.policy_log import PolicyLog
from lonnymq.spark.reports.claims import Change, Outcome, channel_claims, channel_result
from lonnymq.spark.reports.model import ShareSeries

if TYPE_CHECKING:
    import pyarrow as pa

    from lonnymq.spark.reports.span import Span

DISPATCH_MS = round(1000 * MAX_TURNAROUND_S)
"""From so long after it is due on, a message counts as waiting: until then it may wait for the dispatcher."""
ROWS_PER_BATCH = 10_000
POLICY_COLUMNS = {
    "id": "bigint",
    "at": "timestamp",
    "scope": "string",
    "channel": "string",
    "max_concurrency": "int",
    "release_interval_us": "bigint",
    "burst": "int",
    "paused": "boolean",
    "max_size": "int",
    "weight": "double",
    "is_deleted": "boolean",
}
CLAIM_COLUMNS = (
    "channel string, lane string, bucket int, served double, demand double, own_limit double, weight double,"
    " paused_ms long, present_ms long, is_new boolean, largest long"
)
OUTCOME_COLUMNS = (
    "channel string, lane string, bucket int, served double, entitled double, competes boolean, held_ms long,"
    " is_new boolean, largest long"
)
RESULT_COLUMNS = (
    "channel string, served double, entitled double, lacked double, held_ms long, competed_served double,"
    " competed_entitled double, largest long"
)

Row = dict[str, Any]


@dataclass(frozen=True)
class TenantShare:
    """Of all that was served, the part that a channel was served, the part it was entitled to, and for how
    long its own limits held it back.
    """

    share: float
    entitlement: float
    held_ms: int


@dataclass(frozen=True)
class Shares:
    """`misallocated` is the part of all that was served that should have gone to others. It is None if
    nothing was served; `jain` is None if fewer than two channels competed.
    """

    tenants: dict[str, TenantShare]
    jain: float | None
    competed: int
    misallocated: float | None
    series: tuple[ShareSeries, ...]


def shares(attempts: DataFrame, policies: DataFrame | None, span: Span, largest: Sequence[str]) -> Shares:
    """From rows (channel, lane, cost, due, began, left, work): when an attempt was due and dequeued, when its
    wait was over and how long it took, in milliseconds. `largest` are the channels of the series.
    """
    outcomes = _outcomes(_claims(_changes(attempts, span), policies, span)).persist(StorageLevel.DISK_ONLY)
    try:
        results = _results(outcomes).collect()
        served = sum(row.served for row in results)
        competed = [row for row in results if row.competed_entitled >= ENOUGH_MESSAGES * row.largest]
        ratios = [row.competed_served / row.competed_entitled for row in competed]
        return Shares(
            {
                row.channel: TenantShare(row.served / served, row.entitled / served, row.held_ms)
                for row in results
                if served
            },
            jain(ratios) if len(ratios) > 1 else None,
            len(ratios),
            sum(row.lacked for row in results) / served if served else None,
            _series(outcomes, span, largest),
        )
    finally:
        outcomes.unpersist()


def bucket_of(at: Column, span: Span) -> Column:
    """The number of the bucket that contains a time; -1 for a time before the first bucket, and the number
    of buckets for one after the last.
    """
    number = f.floor((at - span.began_ms) / span.bucket_ms)
    return f.least(f.greatest(number, f.lit(-1)), f.lit(span.buckets)).cast("int")


def _changes(attempts: DataFrame, span: Span) -> DataFrame:
    """Rows (channel, changes): for each channel, its `Change`s."""
    nothing = f.lit(0).cast("long")
    cost = f.col("cost").cast("long")
    arrived = f.least(f.least("due", "left") + DISPATCH_MS, f.col("left"))
    arriving = attempts.groupBy("channel", "lane", bucket_of(arrived, span).alias("bucket")).agg(
        f.sum(cost).alias("arrived"),
        *(nothing.alias(name) for name in ("left", "served", "begun", "ended", "work_ms")),
        f.min(arrived).alias("first_ms"),
        f.max(cost).alias("largest"),
    )
    has_begun = f.col("began").isNotNull()
    leaving = attempts.groupBy("channel", "lane", bucket_of(f.col("left"), span).alias("bucket")).agg(
        nothing.alias("arrived"),
        f.sum(cost).alias("left"),
        f.coalesce(f.sum(f.when(has_begun, cost)), nothing).alias("served"),
        f.count("began").alias("begun"),
        f.count("work").alias("ended"),
        f.coalesce(f.sum("work"), nothing).alias("work_ms"),
        f.lit(None).cast("long").alias("first_ms"),
        f.max(cost).alias("largest"),
    )
    summed = ("arrived", "left", "served", "begun", "ended", "work_ms")
    both = arriving.unionByName(leaving).where(f.col("bucket") < span.buckets)
    return (
        both.groupBy("channel", "lane", "bucket")
        .agg(
            *(f.sum(name).alias(name) for name in summed),
            f.min("first_ms").alias("first_ms"),
            f.max("largest").alias("largest"),
        )
        .groupBy("channel")
        .agg(f.collect_list(f.struct(*Change._fields)).alias("changes"))
    )


def _claims(changes: DataFrame, policies: DataFrame | None, span: Span) -> DataFrame:
    if policies is None:
        return _mapped(changes, CLAIM_COLUMNS, lambda row: _claims_of(row, [], span))
    rows = policies.select(*POLICY_COLUMNS).withColumn("at", f.unix_millis("at"))  # whatever the time zone
    of_queue = [row.asDict() for row in rows.where("scope <> 'channel'").collect()]
    of_channels = (
        rows.where("scope = 'channel'")
        .groupBy("channel")
        .agg(f.collect_list(f.struct(*POLICY_COLUMNS)).alias("policies"))
    )
    joined = changes.join(of_channels, "channel", "left")
    return _mapped(joined, CLAIM_COLUMNS, lambda row: _claims_of(row, of_queue, span))


def _claims_of(row: Row, of_queue: Sequence[Row], span: Span) -> Iterator[tuple[Any, ...]]:
    channel = row["channel"]
    log = PolicyLog.of([*of_queue, *(row.get("policies") or ())])
    changes = [Change(**change) for change in row["changes"]]
    for one in channel_claims(changes, log.changes(channel), span):
        yield channel, one.lane, one.bucket, *one.claim, *one[3:]


def _outcomes(claims: DataFrame) -> DataFrame:
    return claims.groupBy("lane", "bucket").applyInArrow(_outcomes_of_bucket, OUTCOME_COLUMNS)


def _outcomes_of_bucket(claims: pa.Table) -> pa.Table:
    """What all channels that waited or were served in one bucket of a lane were entitled to."""
    import pyarrow as pa

    amounts = (claims[name].to_pylist() for name in ("served", "demand", "own_limit", "weight"))
    found = entitlements([Claim(*one) for one in zip(*amounts, strict=True)])
    times = zip(found, claims["paused_ms"].to_pylist(), claims["present_ms"].to_pylist(), strict=True)
    held_ms = [present if one.bound_by is BoundBy.LIMIT else paused for one, paused, present in times]
    return (
        claims.append_column("entitled", pa.array([one.amount for one in found], pa.float64()))
        .append_column("competes", pa.array([one.bound_by is BoundBy.SHARE for one in found]))
        .append_column("held_ms", pa.array(held_ms, pa.int64()))
        .select(["channel", *Outcome._fields])
    )


def _results(outcomes: DataFrame) -> DataFrame:
    of_channels = outcomes.groupBy("channel").agg(
        f.collect_list(f.struct(*Outcome._fields)).alias("outcomes")
    )
    return _mapped(of_channels, RESULT_COLUMNS, _result_of)


def _result_of(row: Row) -> Iterator[tuple[Any, ...]]:
    found = channel_result(Outcome(**outcome) for outcome in row["outcomes"])
    yield (
        row["channel"],
        found.served,
        found.entitled,
        found.lacked,
        found.held_ms,
        found.competed_served,
        found.competed_entitled,
        found.largest,
    )


def _series(outcomes: DataFrame, span: Span, largest: Sequence[str]) -> tuple[ShareSeries, ...]:
    shown = f.when(f.col("channel").isin(list(largest)), f.col("channel"))
    summed = outcomes.groupBy(shown.alias("channel"), "bucket").agg(f.sum("served"), f.sum("entitled"))
    all_served = [0.0] * span.buckets
    of_channel: dict[str | None, tuple[list[float], list[float]]] = {
        name: ([0.0] * span.buckets, [0.0] * span.buckets) for name in (*largest, None)
    }
    for channel, bucket, served, entitled in summed.collect():
        all_served[bucket] += served
        of_channel[channel][0][bucket], of_channel[channel][1][bucket] = served, entitled

    def parts(amounts: Iterable[float]) -> tuple[float | None, ...]:
        return tuple(
            amount / total if total else None for amount, total in zip(amounts, all_served, strict=True)
        )

    return tuple(
        ShareSeries(name, parts(of_channel[name][0]), parts(of_channel[name][1])) for name in largest
    )


def _mapped(rows: DataFrame, columns: str, make: Callable[[Row], Iterable[tuple[Any, ...]]]) -> DataFrame:
    """Each row as any number of rows of these columns. Rows are read one by one, as they can be long."""
    columns_and_kinds = [column.split() for column in columns.split(",")]

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        kinds = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
        kinds |= {"double": pa.float64(), "boolean": pa.bool_()}
        schema = pa.schema([(name, kinds[kind]) for name, kind in columns_and_kinds])
        made = (
            new
            for batch in batches
            for place in range(batch.num_rows)
            for new in make(batch.slice(place, 1).to_pylist()[0])
        )
        while some := list(islice(made, ROWS_PER_BATCH)):
            arrays = [
                pa.array(values, of.type) for values, of in zip(zip(*some, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return rows.mapInArrow(each, columns)
