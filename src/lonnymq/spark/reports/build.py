"""`report`: how each tenant was served, with outcomes, waits, throughput and fairness.

A message waits from the time it was due, or was created if that is later, to its first dequeue. If its first
due time is not known (of a dead letter that was retried, or of any message that was retried with a delay, in
an archive of an older version), the wait is not counted. Throughput is completed messages per second, from
the first dequeue to the last finish. Retries are the attempts after the first. Work is the time from each
dequeue to the end of that attempt, of messages that were not cancelled. lonnymq.rules.entitlement defines
fairness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from lonnymq.client.times import EPOCH, milliseconds, moment
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import Duration
from lonnymq.spark.reports.entitled import POLICY_COLUMNS, Shares, TenantShare, bucket_of, shares
from lonnymq.spark.reports.json_text import json_text
from lonnymq.spark.reports.model import Flow, ReportData, TenantNumbers, Totals
from lonnymq.spark.reports.percentiles import percentiles
from lonnymq.spark.reports.span import Span

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_BUCKETS = 200
MAX_BUCKETS = 10_000
MIN_BUCKET_MS = 1_000
MAX_FLOWS = 7
NOTHING = dict.fromkeys(("messages", "completed", "dead", "cancelled", "retries", "waits", "work"), 0)
NEVER_MS = 2**53
"""The time when a message that still waits will be dequeued: after any report."""
TYPES = {
    "channel": "string",
    "outcome": "string",
    "attempts": "int",
    "created_at": "timestamp",
    "dequeue_at": "bigint",
    "first_dequeued_at": "timestamp",
    "dequeued_at": "timestamp",
    "finished_at": "timestamp",
    "lane": "string",
    "cost": "int",
}
PAST_RUNS = {"past_runs": "array<struct<due_at:bigint,dequeued_at:bigint,ended_at:bigint>>"}
"""An archive of an older version does not have it."""
WAITING = {
    "id": "bigint",
    "channel": "string",
    "lane": "string",
    "cost": "int",
    "created_at": "timestamp",
    "dequeue_at": "bigint",
    "dequeued_at": "timestamp",
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
        return json_text(self)

    def write_parquet(self, path: str | Path) -> None:
        """One row per tenant, in one file."""
        import pyarrow as pa
        from pyarrow import parquet

        kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "float | None": pa.float64()}
        channel_first = sorted(fields(TenantNumbers), key=lambda field: field.name != "channel")
        schema = pa.schema([(field.name, kinds[str(field.type)]) for field in channel_first])
        columns = {name: [getattr(tenant, name) for tenant in self.tenants] for name in schema.names}
        parquet.write_table(pa.table(columns, schema=schema), str(path))


def report(
    spark: SparkSession,  # noqa: ARG001 - as all functions of this package take it
    history: DataFrame,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    policies: DataFrame | None = None,
    waiting: DataFrame | None = None,
    bucket: Duration | None = None,
) -> Report:
    """Report on rows of the history, from `lonnymq_history` or from an archive of it.

    `policies` are the rows of `lonnymq_policies` or of an archive of them. Without them, the limits and the
    weights of the tenants are not known. `waiting` are messages that still wait, from the table `waiting` of
    an archive; without them, a tenant that got nothing is not seen to wait.

    `since` and `until` select messages by `finished_at`; `since` is included. The entitlements also take
    account of rows that finished later: they waited before. `bucket` is the length of the time buckets for
    fairness and for the plots. The default makes 200 buckets of at least one second.

        report(spark, spark.read.format("lonnymq_history").load()).print()
    """
    _check_columns(history, TYPES, "the history", "lonnymq_history")
    if policies is not None:
        _check_columns(policies, POLICY_COLUMNS, "the log of policies", "lonnymq_policies")
    if waiting is not None:
        _check_columns(waiting, WAITING, "the waiting messages", None)
    if bucket is not None and milliseconds(bucket) < 1:
        raise InvalidArgument(f"a bucket of {bucket!r} is too short", "give one millisecond or more")
    since_ms, until_ms = (None if at is None else moment(at) for at in (since, until))
    every = _moments(history, since_ms, until_ms).persist(StorageLevel.DISK_ONLY)
    try:
        moments = every.where("is_counted")
        counts = _counts(moments).collect()
        if not counts:
            return _empty()
        span = _span(counts, since_ms, bucket)
        largest = [row.channel for row in _by_size(counts)[:MAX_FLOWS]]
        return _assemble(
            counts,
            {row.channel: row for row in percentiles(moments.select("channel", "wait"), "channel").collect()},
            percentiles(moments.select(f.lit("all").alias("all"), "wait"), "all").collect(),
            shares(_attempts(every, history, waiting), policies, span, largest),
            _flows(moments, span, largest),
            span,
            knows_limits=policies is not None,
        )
    finally:
        every.unpersist()


def _check_columns(rows: DataFrame, types: Mapping[str, str], what: str, source: str | None) -> None:
    found = dict(rows.dtypes)
    wrong = [
        f"{name} is {found[name]}, not {kind}" if name in found else f"{name} is missing"
        for name, kind in types.items()
        if found.get(name) != kind
    ]
    if "past_runs" in found and types is TYPES and found["past_runs"] != PAST_RUNS["past_runs"]:
        wrong.append(f"past_runs is {found['past_runs']}, not {PAST_RUNS['past_runs']}")
    if wrong:
        with_format = f"with the format {source}, or " if source else ""
        raise InvalidArgument(
            f"these rows are not of {what}: {', '.join(wrong)}",
            f"read them {with_format}from an archive of it",
        )


def _moments(history: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """The times as Unix milliseconds, which do not depend on a time zone. `is_counted` is false for rows that
    finished after the time of the report.
    """
    finished, created = f.unix_millis("finished_at"), f.unix_millis("created_at")
    dequeued = f.unix_millis("dequeued_at")
    kind = PAST_RUNS["past_runs"]
    past = (f.col("past_runs") if "past_runs" in history.columns else f.lit(None)).cast(kind)
    earlier = f.unix_millis("first_dequeued_at")
    # Of a message that was retried, an older version has only the first dequeue.
    unknown = f.array(f.struct(earlier, earlier, f.lit(None).cast("long"))).cast(kind)
    none = f.array().cast(kind)
    runs = f.coalesce(past, f.when(earlier < dequeued, unknown), none)
    last = f.struct(f.col("dequeue_at"), dequeued, finished)
    first = f.coalesce(f.get(past, f.lit(0))["dequeued_at"], earlier)
    due = f.greatest(created, f.coalesce(f.get(past, f.lit(0))["due_at"], f.col("dequeue_at")))
    worked = f.aggregate(
        f.concat(runs, f.array(last).cast(kind)),
        f.lit(0).cast("long"),
        lambda sum_ms, run: (
            sum_ms + f.greatest(f.coalesce(run.ended_at - run.dequeued_at, f.lit(0)), f.lit(0))
        ),
    )
    is_counted = f.lit(True) if until_ms is None else finished < until_ms  # noqa: FBT003
    rows = history if since_ms is None else history.where(f.col("finished_at") >= _timestamp(since_ms))
    if until_ms is not None:
        rows = rows.where(f.col("created_at") < _timestamp(until_ms))
    return rows.select(
        "channel",
        "lane",
        "cost",
        "outcome",
        f.greatest(f.col("attempts") - 1, f.lit(0)).alias("retries"),
        f.when(first >= due, first - due).alias("wait"),
        f.when(f.col("outcome") != "cancelled", worked).alias("work"),
        f.coalesce(first, finished).alias("left"),
        created.alias("created"),
        finished.alias("finished"),
        f.concat(runs, f.array(last).cast(kind)).alias("runs"),
        is_counted.alias("is_counted"),
    )


def _timestamp(at_ms: int) -> Column:
    return f.timestamp_millis(f.lit(at_ms))


def _attempts(moments: DataFrame, history: DataFrame, waiting: DataFrame | None) -> DataFrame:
    """Rows (channel, lane, cost, due, began, left, work), one per attempt: see `entitled.shares`."""
    every = moments.select("channel", "lane", "cost", "created", f.explode("runs").alias("run"))
    if waiting is not None:
        run = f.struct(
            f.col("dequeue_at").alias("due_at"),
            f.unix_millis("dequeued_at").alias("dequeued_at"),
            f.lit(None).cast("long").alias("ended_at"),
        )
        unfinished = waiting.join(history.select("id"), "id", "left_anti")  # it may have finished meanwhile
        every = every.unionByName(
            unfinished.select(
                "channel", "lane", "cost", f.unix_millis("created_at").alias("created"), run.alias("run")
            )
        )
    began, ended = f.col("run.dequeued_at"), f.col("run.ended_at")
    return every.select(
        "channel",
        "lane",
        "cost",
        f.greatest("created", "run.due_at").alias("due"),
        began.alias("began"),
        f.coalesce(began, ended, f.lit(NEVER_MS)).alias("left"),
        f.when(began.isNotNull(), f.greatest(ended - began, f.lit(0))).alias("work"),
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
    counted = completed.groupBy(
        shown.alias("channel"), bucket_of(f.col("finished"), span).alias("bucket")
    ).count()
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
    found: Shares,
    flows: tuple[Flow, ...],
    span: Span,
    *,
    knows_limits: bool,
) -> Report:
    of_nothing = TenantShare(0.0, 0.0, 0) if found.tenants else None

    def tenant(row: Row) -> TenantNumbers:
        own = found.tenants.get(row.channel, of_nothing)
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
            share=None if own is None else own.share,
            entitlement=None if own is None else own.entitlement,
            held_s=0.0 if own is None else own.held_ms / 1000,
            work_s=row.work / 1000,
        )

    finished = {row.channel for row in counts}
    # Of these channels something waited, and nothing finished.
    others = [Row(channel=name, **NOTHING) for name in sorted(found.tenants) if name not in finished]
    tenants = tuple(map(tenant, [*_by_size(counts), *others]))
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
        jain=found.jain,
        competed=found.competed,
        misallocated=found.misallocated,
    )
    return Report(
        tenants,
        totals,
        flows,
        _time(span.began_ms),
        _time(span.ended_ms),
        span.bucket_ms,
        found.series,
        knows_limits,
    )


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
        competed=0,
        misallocated=None,
    )
    return Report((), totals, (), None, None, MIN_BUCKET_MS)


def _waits(row: Row | None) -> dict[str, float | None]:
    return {f"wait_{name}_ms": row[name] if row else None for name in ("p50", "p95", "p99")}


def _rate(count: int, span: Span) -> float | None:
    return count / span.seconds if span.seconds else None


def _time(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at_ms)
