"""The rows that a report is made of: from a lake, or from the queue itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lonnymq.spark.lake.find_lake import CatalogOption, open_lake
from lonnymq.spark.lake.read_lake import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MORE = ("policies", "waiting")
"""Tables that an archive of an older version does not have."""
WAITED = timedelta(days=1)
"""Messages that finished up to so long after the time of a report waited during it, as far as it can tell."""


@dataclass(frozen=True)
class ReportRows:
    """`policies` and `waiting` are None if the lake does not have these tables."""

    history: DataFrame
    policies: DataFrame | None
    waiting: DataFrame | None


def rows_of_lake(
    spark: SparkSession,
    lake: str,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    catalog: CatalogOption = None,
) -> ReportRows:
    """Spark reads only the files of the days from `since` to one day after `until`."""
    later = None if until is None else until + WAITED
    with open_lake(lake, catalog=catalog) as opened:
        there = opened.names()
    tables = {name: read(spark, lake, name, catalog=catalog) for name in MORE if name in there}
    history = read(spark, lake, "history", since=since, until=later, catalog=catalog)
    return ReportRows(history, tables.get("policies"), tables.get("waiting"))


def rows_of_queue(spark: SparkSession, options: Mapping[str, str]) -> ReportRows:
    """The options are those of the data sources."""
    from pyspark.sql import functions as f

    def load(name: str, **more: str) -> DataFrame:
        return spark.read.format(name).options(**{**options, **more}).load()

    running = f.when(f.col("status") == "leased", f.col("dequeued_at"))
    return ReportRows(
        load("lonnymq_history"),
        load("lonnymq_policies"),
        load("lonnymq", includeContent="false").withColumn("dequeued_at", running),
    )
