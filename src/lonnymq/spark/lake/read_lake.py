"""`read`: the rows of an archived table, or those of some days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from lonnymq.spark.lake.find_lake import CatalogOption, open_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: SparkSession,
    lake: str,
    table: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    catalog: CatalogOption = None,
) -> DataFrame:
    """The rows of a table of the lake, such as `history`.

    With `since` and `until`, Spark reads only the files of the days (UTC) from one to the other. The rows of
    these days are all there, so filter them by their times too.
    """
    with open_lake(lake, catalog=catalog) as found:
        return found.table(table).read(spark, *days(since, until))


def days(since: datetime | None, until: datetime | None) -> tuple[date | None, date | None]:
    """The first and the last day (UTC) with rows from `since` on and before `until`.

    >>> days(datetime(2030, 1, 1, 9, tzinfo=UTC), datetime(2030, 1, 3, tzinfo=UTC))
    (datetime.date(2030, 1, 1), datetime.date(2030, 1, 2))
    """
    last = None if until is None else until.astimezone(UTC) - timedelta(microseconds=1)
    return None if since is None else since.astimezone(UTC).date(), None if last is None else last.date()
