"""What a table of the lake offers, whatever its format, and the errors that it raises."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from lonnymq.errors import InvalidArgument, LonnyMQError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DAY = "day"
"""The partition of a table: the day (UTC) of its rows."""
SOURCE = "lonnymq.source"
"""A property of a table: where its rows come from."""


class LakeUnsuitable(LonnyMQError):
    """The table in the lake cannot be used."""


class LakeConflict(LonnyMQError):
    """Another archive has committed to the table meanwhile. Nothing was written twice."""


class LakeNotShared(LonnyMQError):
    """The driver does not see files that executors wrote. Nothing was committed."""


@dataclass(frozen=True)
class Position:
    """The table has all rows of transactions below `xid`; `mark` is a fingerprint of these rows."""

    xid: int
    mark: int | None
    """None: the database could not compute it."""


@dataclass(frozen=True)
class TableOptions:
    """What an archive knows about a table, with which it opens or creates it."""

    uri: str
    source: str
    """Where its rows come from: the cluster, the schema and the view."""
    schema: StructType
    day_of: str
    """The column that decides to which day a row belongs."""


class LakeTable(Protocol):
    """An open table, at the version that it had when it was opened."""

    uri: str

    def position(self) -> Position | None:
        """Up to where the table has rows. None: it is new."""

    def append(self, rows: DataFrame, upto: Position) -> int:
        """Write the rows and the new position in one commit. Returns the number of rows."""

    def read(self, spark: SparkSession, first: date | None = None, last: date | None = None) -> DataFrame:
        """The rows, or only those of the days from `first` to `last`."""


def check_source(uri: str, found: str | None, expected: str) -> None:
    if found != expected:
        raise LakeUnsuitable(
            f"the rows of the table at {uri} come from {found or 'an unknown source'}, not from {expected}",
            "archive into another folder: transaction ids of another queue, or of a restored database,"
            " cannot be compared",
        )


def absolute_path(path: str) -> str:
    """The full path of a folder, because driver and executors have different working directories.

    >>> absolute_path("/srv/lake/"), absolute_path("file:///srv/my%20lake"), absolute_path("s3://bucket/lake/")
    ('/srv/lake', '/srv/my lake', 's3://bucket/lake')
    """
    if not path.strip():
        raise InvalidArgument(
            "the path of the lake is empty", "give a folder, or an address in an object store"
        )
    if path.startswith("file:"):
        parts = urlsplit(path)
        if parts.netloc not in {"", "localhost"}:
            raise InvalidArgument(f"{path} is on another machine, {parts.netloc}", "write file:///folder")
        path = unquote(parts.path)
    elif "://" in path:
        return path.rstrip("/")
    # Path.resolve() would follow links, which may lead elsewhere on an executor.
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100
