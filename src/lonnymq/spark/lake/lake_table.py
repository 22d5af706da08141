"""What a table of the lake offers, whatever its format, and the errors that it raises."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date, timedelta
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
IDENTITY = "lonnymq.identity"
"""A property of a table that does not use the id that its format gives it, because it is a copy."""
FOLDER = "lonnymq.folder"
"""A property of a table: the folder in which it was last archived."""
CATALOG_FILE = "catalog.db"
"""The file of an Iceberg lake's own catalog."""
FILE_BYTES = 256 * 1024 * 1024
"""The size that `optimize` aims at."""
ATTEMPTS = 10
"""How often a change is made again, on top of what another program has committed meanwhile."""


class LakeUnsuitable(LonnyMQError):
    """The table in the lake cannot be used."""


class LakeConflict(LonnyMQError):
    """Another program has committed to the table meanwhile. Nothing was written twice."""


class LakeNotShared(LonnyMQError):
    """The driver does not see files that executors wrote. Nothing was committed."""


class LakeNotWritable(LonnyMQError):
    """A file could not be written: the disk is full, or the folder is read-only. Nothing was committed."""


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

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]


@dataclass(frozen=True)
class WrittenFile:
    """A file that is in no commit yet."""

    path: str
    day: str
    bytes: int
    rows: int
    stats: str


@dataclass(frozen=True)
class OptimizedTable:
    """What `optimize` did to a table."""

    table: str
    files_before: int
    files_after: int


@dataclass(frozen=True)
class ExpiredTable:
    """What `expire` did to a table, or would do."""

    table: str
    rows: int
    days: int
    files: int
    """Files whose rows are no longer in the table."""
    deleted_files: int
    """Files that were deleted, because no version of the table needs them any more."""


class LakeTable(Protocol):
    """An open table, at the version that it had when it was opened."""

    uri: str

    @property
    def identity(self) -> str:
        """The same wherever the table is. Its follower in PostgreSQL is named by it."""

    @property
    def folder(self) -> str | None:
        """The folder in which it was last archived. None: an older version of this package did that."""

    def is_copied(self) -> bool:
        """Whether this is a copy, and the original is still in the other folder."""

    def remember(self, identity: str) -> None:
        """Record the identity, and the folder in which the table is now."""

    def position(self) -> Position | None:
        """Up to where the table has rows. None: it is new."""

    def write(self, rows: DataFrame) -> list[WrittenFile]:
        """Let executors write the rows into files."""

    def commit(self, written: list[WrittenFile], upto: Position) -> None:
        """Add the files and move the position, in one commit."""

    def replace(self, written: list[WrittenFile]) -> None:
        """Make these files the whole table, in one commit."""

    def optimize(self, file_bytes: int) -> OptimizedTable:
        """Replace small files by large ones of the same day. The rows and the position stay."""

    def expire(self, before: date, unused_for: timedelta, *, is_dry_run: bool) -> ExpiredTable:
        """Remove the rows of days before `before`, and delete files that no version has needed for a time."""

    def read(self, spark: SparkSession, first: date | None = None, last: date | None = None) -> DataFrame:
        """The rows, or only those of the days from `first` to `last`."""


class Lake(Protocol):
    """A folder of tables that have the same format."""

    @property
    def path(self) -> str: ...
    @property
    def format(self) -> str: ...

    def open(self, options: TableOptions) -> LakeTable:
        """Open a table, or create it. Columns that an older version did not write are added."""

    def table(self, name: str) -> LakeTable:
        """Open a table that exists."""

    def names(self) -> list[str]:
        """The tables that exist."""

    def close(self) -> None: ...


def missing_table(uri: str) -> LakeUnsuitable:
    return LakeUnsuitable(f"there is no archived table at {uri}", "give the folder of an archive")


def conflict(uri: str) -> LakeConflict:
    return LakeConflict(
        f"another archive has committed to {uri} meanwhile",
        "run one archive per folder; if it was `optimize` or `expire`, run this again",
    )


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
