"""Exact percentiles of waits, as PostgreSQL's percentile_cont has them, however many messages a channel
has.

Spark's own `percentile` holds a channel's values in memory. Here equal waits are counted, the counts are
summed up in their order, and the values at the ranks that are asked for are picked out: sorts and sums,
which spill to disk.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def percentiles(waits: DataFrame, key: str) -> DataFrame:
    """Rows (key, p50, p95, p99) of rows (key, wait); a wait that is null is not counted."""
    counted = waits.where(f.col("wait").isNotNull()).groupBy(key, "wait").agg(f.count("*").alias("times"))
    of_key = Window.partitionBy(key)
    upto = of_key.orderBy("wait").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = counted.select(
        key,
        "wait",
        "times",
        f.sum("times").over(upto).alias("end"),
        f.sum("times").over(of_key).alias("count"),
    )
    picked = placed.groupBy(key).agg(
        f.first("count").alias("count"),
        *(_at_rank(f.floor(_position(p)), f"{name}_low") for name, p in PERCENTILES.items()),
        *(_at_rank(f.ceil(_position(p)), f"{name}_high") for name, p in PERCENTILES.items()),
    )
    return picked.select(key, *(_between(name, p) for name, p in PERCENTILES.items()))


def _position(percentile: float) -> Column:
    return f.lit(percentile) * (f.col("count") - 1)


def _at_rank(rank: Column, name: str) -> Column:
    start = f.col("end") - f.col("times")
    return f.max(f.when((start <= rank) & (rank < f.col("end")), f.col("wait").cast("double"))).alias(name)


def _between(name: str, percentile: float) -> Column:
    low, high = f.col(f"{name}_low"), f.col(f"{name}_high")
    part = _position(percentile) - f.floor(_position(percentile))
    return (low + part * (high - low)).alias(name)
