"""`optimize` and `expire`: fewer and larger files, and no rows that are too old.

Neither needs Spark or the queue. Neither moves the position of the archive, which may run meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from lonnymq.errors import InvalidArgument
from lonnymq.spark.lake.find_lake import CatalogOption, open_lake
from lonnymq.spark.lake.lake_table import FILE_BYTES, ExpiredTable, OptimizedTable

EXPIRING = ("history", "dead")
"""Rows of other tables do not expire: a policy may be in force that was set long ago."""
UNUSED_FOR = timedelta(days=7)
"""So long files are kept that the table does not need: for queries that still read them, for going back to
an older version, and for archives that have written files and not committed them yet."""


def _ignore(table: str) -> None:
    """The default of `on_table`."""


def optimize(
    lake: str,
    *,
    file_bytes: int = FILE_BYTES,
    catalog: CatalogOption = None,
    on_table: Callable[[str], None] = _ignore,
) -> list[OptimizedTable]:
    """Make one file per day out of many small ones, or several of about `file_bytes`."""
    done = []
    with open_lake(lake, catalog=catalog) as found:
        for name in found.names():
            on_table(name)
            done.append(found.table(name).optimize(file_bytes))
    return done


def expire(
    lake: str,
    keep: timedelta,
    *,
    unused_for: timedelta = UNUSED_FOR,
    is_dry_run: bool = False,
    catalog: CatalogOption = None,
    on_table: Callable[[str], None] = _ignore,
) -> list[ExpiredTable]:
    """Remove the rows of days (UTC) that ended longer than `keep` ago, and files that nobody needs."""
    before = first_kept_day(keep)
    done = []
    with open_lake(lake, catalog=catalog) as found:
        for name in found.names():
            on_table(name)
            first = before if name in EXPIRING else date.min
            done.append(found.table(name).expire(first, unused_for, is_dry_run=is_dry_run))
    return done


def first_kept_day(keep: timedelta) -> date:
    if keep < timedelta(days=1):
        raise InvalidArgument(f"{keep} is too short to keep rows", "keep them for at least a day")
    return (datetime.now(UTC) - keep).date()
