"""`report`: how each tenant was served, with outcomes, waits, throughput and fairness.

A message waits from the time it was due, or was created if that is later, to its first dequeue. If its due
time was changed after the first dequeue (by a retry with a delay, or by retrying a dead letter), the original
due time is unknown, and the wait is not counted. Throughput is completed messages per second, from the first
dequeue to the last finish. Retries are the attempts after the first. Work is the time from the last dequeue
to the finish, of messages that were not cancelled. lonnymq.spark.reports.fair_share defines fairness.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from lonnymq.client.times import EPOCH, milliseconds, moment
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import Duration
from lonnymq.spark.reports.fair_share import FairShares, bucket_of, fair_shares
from lonnymq.spark.reports.model import Flow, ReportData, TenantNumbers, Totals
from lonnymq.spark.reports.percentiles import percentiles

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_BUCKETS = 200
MAX_BUCKETS = 10_000
MIN_BUCKET_MS = 1_000
MAX_FLOWS = 7
TYPES = {
    "channel": "string",
    "outcome": "string",
    "attempts": "int",
    "created_at": "timestamp",
    "dequeue_at": "bigint",
    "first_dequeued_at": "timestamp",
    "dequeued_at": "timestamp",
    "finished_at": "timestamp",
}


class Report(ReportData):
    """The numbers of a report, and ways to show and export them."""

    def print(self, console: Console | None = None) -> None:
        """Print the largest tenants and the totals as a table in the terminal."""
        from lonnymq.spark.reports.terminal import show

        show(self, console)

    def to_html(self) -> str:
        """One HTML page that loads nothing else."""
        from lonnymq.spark.reports.page import page

        return page(self)

    def write_html(self, path: str | Path) -> None:
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def to_json(self) -> str:
        """All numbers; times are in ISO 8601."""
        return json.dumps(asdict(self), default=_in_json, ensure_ascii=False, allow_nan=False)

    def write_parquet(self, path: str | Path) -> None:
        """One row per tenant, in one file."""
        import pyarrow as pa
        from pyarrow import parquet

        kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "float | None": pa.float64()}
        channel_first = sorted(fields(TenantNumbers), key=lambda field: field.name != "channel")
        schema = pa.schema([(field.name, kinds[str(field.type)]) for field in channel_first])
        columns = {name: [getattr(tenant, name) for tenant in self.tenants] for name in schema.names}
        parquet.write_table(pa.table(columns, schema=schema), str(path))


@dataclass(frozen=True)
class Span:
    """The time that a report covers, in milliseconds, and the length of its buckets."""

    began_ms: int
    ended_ms: int
    bucket_ms: int

    @property
    def seconds(self) -> float:
        return (self.ended_ms - self.began_ms) / 1000

    @property
    def buckets(self) -> int:
        return (self.ended_ms - self.began_ms) // self.bucket_ms + 1

    def bucket_of(self, at: str) -> Column:
        return bucket_of(f.col(at), self.began_ms, self.bucket_ms)


def report(
    spark: SparkSession,
    history: DataFrame,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    bucket: Duration | None = None,
) -> Report:
    """Report on rows of the history, from `lonnymq_history` or from an archive of it.

    `since` and `until` select rows by `finished_at`; `since` is included. `bucket` is the length of the time
    buckets for fairness and for the plot of throughput. The default makes 200 buckets of at least one second.

        report(spark, spark.read.format("lonnymq_history").load()).print()
    """
    _check_columns(history)
    if bucket is not None and milliseconds(bucket) < 1:
        raise InvalidArgument(f"a bucket of {bucket!r} is too short", "give one millisecond or more")
    moments = _moments(_chosen(history, since, until)).persist(StorageLevel.DISK_ONLY)
    try:
        counts = _counts(moments).collect()
        if not counts:
            return _empty()
        span = _span(counts, None if since is None else moment(since), bucket)
        largest = _by_size(counts)[:MAX_FLOWS]
        return _assemble(
            counts,
            {row.channel: row for row in percentiles(moments.select("channel", "wait"), "channel").collect()},
            percentiles(moments.select(f.lit("all").alias("all"), "wait"), "all").collect(),
            fair_shares(spark, moments, span.began_ms, span.bucket_ms, span.buckets),
            _flows(moments, span, [row.channel for row in largest]),
            span,
        )
    finally:
        moments.unpersist()


def _check_columns(history: DataFrame) -> None:
    found = dict(history.dtypes)
    wrong = [
        f"{name} is {found[name]}, not {kind}" if name in found else f"{name} is missing"
        for name, kind in TYPES.items()
        if found.get(name) != kind
    ]
    if wrong:
        raise InvalidArgument(
            f"these rows are not of the history: {', '.join(wrong)}",
            "read them with the format lonnymq_history, or from an archive of it",
        )


def _chosen(history: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    chosen = history.select(*TYPES)
    if since is not None:
        chosen = chosen.where(f.col("finished_at") >= f.timestamp_millis(f.lit(moment(since))))
    if until is not None:
        chosen = chosen.where(f.col("finished_at") < f.timestamp_millis(f.lit(moment(until))))
    return chosen


def _moments(history: DataFrame) -> DataFrame:
    """The times as Unix milliseconds, which do not depend on a time zone."""
    first, finished = f.unix_millis("first_dequeued_at"), f.unix_millis("finished_at")
    due = f.greatest(f.unix_millis("created_at"), f.col("dequeue_at"))
    left = f.coalesce(first, finished)
    worked = f.greatest(finished - f.unix_millis("dequeued_at"), f.lit(0))
    return history.select(
        "channel",
        "outcome",
        f.greatest(f.col("attempts") - 1, f.lit(0)).alias("retries"),
        f.when(first >= due, first - due).alias("wait"),
        f.when(f.col("outcome") != "cancelled", worked).alias("work"),
        f.least(due, left).alias("arrived"),
        left.alias("left"),
        first.isNotNull().alias("was_served"),
        finished.alias("finished"),
    )


def _counts(moments: DataFrame) -> DataFrame:
    def number(of: Column) -> Column:
        return f.count(f.when(of, 1))

    return moments.groupBy("channel").agg(
        f.count("*").alias("messages"),
        *(number(f.col("outcome") == name).alias(name) for name in ("completed", "dead", "cancelled")),
        f.sum("retries").alias("retries"),
        f.count("wait").alias("waits"),
        f.coalesce(f.sum("work"), f.lit(0)).alias("work"),
        f.min(f.least("left", "finished")).alias("began"),
        f.max("finished").alias("ended"),
    )


def _span(counts: Iterable[Row], since_ms: int | None, bucket: Duration | None) -> Span:
    began_ms = min(row.began for row in counts)
    if since_ms is not None:
        began_ms = max(began_ms, since_ms)
    ended_ms = max(row.ended for row in counts)
    if bucket is None:
        bucket_ms = max(MIN_BUCKET_MS, -(-(ended_ms - began_ms) // DEFAULT_BUCKETS))
    else:
        bucket_ms = milliseconds(bucket)
    span = Span(began_ms, ended_ms, bucket_ms)
    if span.buckets > MAX_BUCKETS:
        shortest_s = -(-(ended_ms - began_ms) // (MAX_BUCKETS - 1)) / 1000
        raise InvalidArgument(
            f"buckets of {bucket_ms / 1000:g} s are {span.buckets:,} buckets, and at most {MAX_BUCKETS:,} are"
            " allowed",
            f"give a bucket of {shortest_s:g} s or more",
        )
    return span


def _flows(moments: DataFrame, span: Span, largest: list[str]) -> tuple[Flow, ...]:
    shown = f.when(f.col("channel").isin(largest), f.col("channel"))
    completed = moments.where(f.col("outcome") == "completed")
    counted = completed.groupBy(shown.alias("channel"), span.bucket_of("finished").alias("bucket")).count()
    series: dict[str | None, list[int]] = {name: [0] * span.buckets for name in (*largest, None)}
    for row in counted.collect():
        series[row["channel"]][row["bucket"]] = row["count"]
    return tuple(Flow(name, tuple(counts)) for name, counts in series.items() if any(counts))


def _by_size(counts: Iterable[Row]) -> list[Row]:
    return sorted(counts, key=lambda row: (-row.messages, row.channel))


def _assemble(
    counts: list[Row],
    waits: dict[str, Row],
    all_waits: list[Row],
    fair: FairShares,
    flows: tuple[Flow, ...],
    span: Span,
) -> Report:
    def tenant(row: Row) -> TenantNumbers:
        share, fair_share = fair.shares.get(row.channel, (None, None))
        return TenantNumbers(
            channel=row.channel,
            messages=row.messages,
            completed=row.completed,
            dead=row.dead,
            cancelled=row.cancelled,
            retries=row.retries,
            waits=row.waits,
            **_waits(waits.get(row.channel)),
            throughput=_rate(row.completed, span),
            share=share,
            fair_share=fair_share,
            work_s=row.work / 1000,
        )

    tenants = tuple(map(tenant, _by_size(counts)))
    completed = sum(tenant.completed for tenant in tenants)
    totals = Totals(
        channels=len(tenants),
        messages=sum(tenant.messages for tenant in tenants),
        completed=completed,
        dead=sum(tenant.dead for tenant in tenants),
        cancelled=sum(tenant.cancelled for tenant in tenants),
        retries=sum(tenant.retries for tenant in tenants),
        waits=sum(tenant.waits for tenant in tenants),
        **_waits(all_waits[0] if all_waits else None),
        throughput=_rate(completed, span),
        work_s=sum(row.work for row in counts) / 1000,
        jain=fair.jain,
        jain_best=fair.jain_best,
        contended=fair.contended,
    )
    return Report(tenants, totals, flows, _time(span.began_ms), _time(span.ended_ms), span.bucket_ms)


def _empty() -> Report:
    totals = Totals(
        channels=0,
        messages=0,
        completed=0,
        dead=0,
        cancelled=0,
        retries=0,
        waits=0,
        **_waits(None),
        throughput=None,
        work_s=0.0,
        jain=None,
        jain_best=None,
        contended=0,
    )
    return Report((), totals, (), None, None, MIN_BUCKET_MS)


def _waits(row: Row | None) -> dict[str, float | None]:
    return {f"wait_{name}_ms": row[name] if row else None for name in ("p50", "p95", "p99")}


def _rate(count: int, span: Span) -> float | None:
    return count / span.seconds if span.seconds else None


def _time(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at_ms)


def _in_json(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{value!r} cannot be written as JSON")
