"""Exact percentiles of waits, for any number of messages. They equal PostgreSQL's percentile_cont.

Spark's own `percentile` keeps all values of a channel in memory. This counts equal waits, sums the counts in
order of the waits, and picks the values at the wanted ranks: only sorts and sums, which can spill to disk.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def percentiles(waits: DataFrame, key: str) -> DataFrame:
    """Rows (key, p50, p95, p99) from rows (key, wait). Null waits are not counted."""
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
