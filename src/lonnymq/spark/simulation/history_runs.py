"""The attempts of a history, one row each, as `lonnymq.simulation.runs.Run` has them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from lonnymq.client.times import moment
from lonnymq.errors import InvalidArgument

MESSAGE = ("id", "channel", "lane", "priority", "cost", "attempts", "created_at", "dequeue_at", "dequeued_at")
HISTORY = (*MESSAGE, "finished_at", "consumer", "past_runs")
WAITING = (*MESSAGE, "taken_at")
LIMITS = ("max_concurrency", "release_interval_us", "burst", "paused", "weight")
POLICIES = ("id", "at", "scope", "channel", *LIMITS, "is_deleted")
USUAL_MS = 1_000
"""How long a message takes in a channel that the history does not have."""


def check_columns(rows: DataFrame, wanted: Iterable[str], table: str) -> None:
    missing = [name for name in wanted if name not in rows.columns]
    if missing:
        raise InvalidArgument(
            f"these rows are not of the table {table}: {', '.join(missing)} is missing",
            f"read them with the format lonnymq_{table}, or from an archive that this version has written to",
        )


def history_runs(history: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    check_columns(history, HISTORY, "history")
    chosen = history.where(f.col("dequeued_at").isNotNull())
    if since is not None:
        chosen = chosen.where(f.col("finished_at") >= f.timestamp_millis(f.lit(moment(since))))
    if until is not None:
        chosen = chosen.where(f.col("finished_at") < f.timestamp_millis(f.lit(moment(until))))
    last = f.struct(
        f.col("dequeue_at").alias("due_at"),
        f.unix_millis("dequeued_at").alias("dequeued_at"),
        f.unix_millis("finished_at").alias("ended_at"),
    )
    each = chosen.select(
        *("id", "channel", "lane", "priority", "cost", "attempts", "created_at", "consumer"),
        f.when(f.col("past_runs").isNull(), f.array(last))
        .otherwise(f.concat("past_runs", f.array(last)))
        .alias("runs"),
    ).select("*", f.posexplode("runs").alias("number", "run"))
    is_first = f.col("number") == 0
    free_at = f.when(is_first, f.unix_millis("created_at")).otherwise(
        f.element_at("runs", f.greatest(f.col("number"), f.lit(1)))["ended_at"]
    )
    is_known = (f.size("runs") > 1) | (f.col("attempts") <= 1)
    return each.select(
        f.col("id").alias("message"),
        "number",
        "channel",
        "lane",
        "priority",
        "cost",
        f.col("run.due_at").alias("dequeue_at"),
        f.greatest(f.col("run.due_at"), free_at).alias("due_at"),
        f.col("run.dequeued_at").alias("began_at"),
        f.col("run.ended_at").alias("ended_at"),
        (is_first & is_known).alias("is_counted"),
        "consumer",
    )


def waiting_runs(waiting: DataFrame, runs: DataFrame) -> DataFrame:
    """What waits or runs at the end. It takes as long as usual in its channel. Its wait does not count."""
    check_columns(waiting, WAITING, "waiting")
    usual = runs.groupBy("channel").agg(
        f.percentile_approx(f.col("ended_at") - f.col("began_at"), 0.5).alias("usual_ms")
    )
    began_at: Column = f.coalesce(f.unix_millis("dequeued_at"), f.unix_millis("taken_at"))
    took_ms = f.coalesce("usual_ms", f.lit(USUAL_MS))
    due_at = f.greatest(f.unix_millis("created_at"), f.col("dequeue_at"))
    return (
        waiting.join(f.broadcast(usual), "channel", "left")
        .where(due_at <= f.unix_millis("taken_at"))
        .select(
            f.col("id").alias("message"),
            f.col("attempts").alias("number"),
            "channel",
            "lane",
            "priority",
            "cost",
            "dequeue_at",
            due_at.alias("due_at"),
            f.greatest(began_at, due_at).alias("began_at"),
            (f.greatest(began_at, due_at) + took_ms).alias("ended_at"),
            f.lit(False).alias("is_counted"),  # noqa: FBT003
            f.lit(None).cast("string").alias("consumer"),
        )
    )
