"""Delta tables in the lake. Executors write Parquet files and the driver commits them, without a jar.

A commit has both the files and the position they go up to. Two archives that run at once cannot both commit:
Delta refuses the one that has read an older position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from lonnymq.spark.lake.lake_table import (
    ATTEMPTS,
    DAY,
    FOLDER,
    IDENTITY,
    SOURCE,
    ExpiredTable,
    LakeConflict,
    LakeUnsuitable,
    OptimizedTable,
    Position,
    TableOptions,
    WrittenFile,
    absolute_path,
    check_source,
    conflict,
    missing_table,
)
from lonnymq.spark.lake.parquet_files import (
    arrow_schema,
    check_shared,
    filesystem,
    not_writable,
    os_error,
    written_by_executors,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POSITION = "lonnymq"
MARK = "lonnymq.mark"
UPTO_XID = "lonnymq.upto_xid"
"""A key in the metadata of each commit that moves the position."""


@dataclass(frozen=True)
class DeltaLake:
    path: str
    format: str = "delta"

    def open(self, options: TableOptions) -> DeltaLakeTable:
        return DeltaLakeTable.open(options)

    def table(self, name: str) -> DeltaLakeTable:
        uri = f"{self.path}/{name}"
        if not DeltaTable.is_deltatable(uri):
            raise missing_table(uri)
        return DeltaLakeTable(uri, DeltaTable(uri), "")

    def names(self) -> list[str]:
        target, folder = filesystem(self.path)
        found = target.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(
            one.base_name for one in found if DeltaTable.is_deltatable(f"{self.path}/{one.base_name}")
        )

    def close(self) -> None: ...


@dataclass
class DeltaLakeTable:
    """A Delta table partitioned by day (UTC)."""

    uri: str
    table: DeltaTable
    day_of: str

    @classmethod
    def open(cls, options: TableOptions) -> DeltaLakeTable:
        """Open the table, or create it. Columns that an older version did not write are added."""
        uri, schema = options.uri, arrow_schema(options.schema)
        with _committing(uri):
            if not DeltaTable.is_deltatable(uri):
                DeltaTable.create(
                    uri,
                    schema=schema.append(pa.field(DAY, pa.date32())),
                    mode="ignore",
                    partition_by=[DAY],
                    configuration={SOURCE: options.source, FOLDER: uri},
                    raise_if_key_not_exists=False,
                )
            table = DeltaTable(uri)
            check_source(uri, table.metadata().configuration.get(SOURCE), options.source)
            names = {field.name for field in table.schema().fields}
            missing = [field for field in Schema.from_arrow(schema).fields if field.name not in names]
            if missing:
                table.alter.add_columns(missing)
        return cls(uri, table, options.day_of)

    @property
    def identity(self) -> str:
        found = self.table.metadata()
        return found.configuration.get(IDENTITY) or str(found.id)

    @property
    def folder(self) -> str | None:
        return self.table.metadata().configuration.get(FOLDER)

    def is_copied(self) -> bool:
        there = self.folder
        if there is None or "://" in there or "://" in self.uri or not DeltaTable.is_deltatable(there):
            return False
        original = DeltaLakeTable(there, DeltaTable(there), "")
        return original.identity == self.identity and not Path(there).samefile(self.uri)

    def remember(self, identity: str) -> None:
        with _committing(self.uri):
            self.table.alter.set_table_properties(
                {FOLDER: self.uri, IDENTITY: identity}, raise_if_not_exists=False
            )

    def position(self) -> Position | None:
        """The position of the table, or of the older version to which it was restored."""
        table, version = self.table, _restored_to(self.table)
        if version != table.version():
            table = DeltaTable(self.uri, version=version)
        xid = table.transaction_version(POSITION)
        return None if xid is None else Position(xid, table.transaction_version(MARK) or None)

    def write(self, rows: DataFrame) -> list[WrittenFile]:
        return written_by_executors(rows, self.uri, self.day_of, arrow_schema(rows.schema))

    def commit(self, written: list[WrittenFile], upto: Position) -> None:
        check_shared(self.uri, written)
        adds = _add_actions(written)
        properties = CommitProperties(
            custom_metadata={UPTO_XID: str(upto.xid)},
            app_transactions=[Transaction(POSITION, upto.xid), Transaction(MARK, upto.mark or 0)],
        )

        def add() -> None:
            self.table.create_write_transaction(
                adds, "append", self.table.schema(), [DAY], commit_properties=properties
            )

        before = self.position()
        # Again only if it was `optimize` or `expire`, which leave the position.
        self._repeat(add, lambda: self.position() == before)

    def replace(self, written: list[WrittenFile]) -> None:
        check_shared(self.uri, written)
        adds = _add_actions(written)
        self._repeat(
            lambda: self.table.create_write_transaction(adds, "overwrite", self.table.schema(), [DAY])
        )

    def optimize(self, file_bytes: int) -> OptimizedTable:
        before = len(self.table.file_uris())
        writer = WriterProperties(compression="ZSTD")
        self._repeat(lambda: self.table.optimize.compact(target_size=file_bytes, writer_properties=writer))
        return OptimizedTable(_name(self.uri), before, len(self.table.file_uris()))

    def expire(self, before: date, unused_for: timedelta, *, is_dry_run: bool) -> ExpiredTable:
        days, rows, files = set(), 0, 0
        if self.table.metadata().partition_columns == [DAY]:
            for file in pa.table(self.table.get_add_actions(flatten=True)).to_pylist():
                if file[f"partition.{DAY}"] < before:
                    days.add(file[f"partition.{DAY}"])
                    rows, files = rows + file["num_records"], files + 1
        if files and not is_dry_run:
            self._repeat(lambda: self.table.delete(f"{DAY} < '{before}'"))
        with _committing(self.uri):
            unused = self.table.vacuum(
                int(unused_for.total_seconds() // 3600),
                dry_run=is_dry_run,
                enforce_retention_duration=False,
                full=True,
            )
        return ExpiredTable(_name(self.uri), rows, len(days), files, len(unused))

    def _repeat(self, change: Callable[[], object], may_repeat: Callable[[], bool] = lambda: True) -> None:
        """Make a change again, on top of what another program has committed meanwhile."""
        for attempt in range(ATTEMPTS):
            try:
                with _committing(self.uri):
                    change()
            except LakeConflict:
                self.table.update_incremental()
                if attempt + 1 == ATTEMPTS or not may_repeat():
                    raise
            else:
                return

    def read(self, spark: SparkSession, first: date | None = None, last: date | None = None) -> DataFrame:
        return _read(spark, self.uri, self.table, first, last)


@contextmanager
def _committing(uri: str) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        if isinstance(error, OSError) or os_error(error):
            raise not_writable(uri, error) from error
        if isinstance(error, CommitFailedError):
            raise conflict(uri) from error
        raise


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _add_actions(written: list[WrittenFile]) -> list[AddAction | RemoveAction]:
    return [
        AddAction(
            path=file.path,
            size=file.bytes,
            partition_values={DAY: file.day},
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=file.stats,
        )
        for file in written
    ]


def _restored_to(table: DeltaTable) -> int:
    """The version to which the table was restored after its position was last moved, or its own version."""
    version = table.version()
    for limit in (1, 50, None):
        version = table.version()
        commits = table.history(limit)
        for commit in commits:
            if commit["version"] > version:
                continue
            if UPTO_XID in commit:
                return version
            if commit.get("operation") == "RESTORE":
                version = _restored_version(table, commit)
        if limit is None or len(commits) < limit:
            break
    return version


def _restored_version(table: DeltaTable, commit: dict[str, Any]) -> int:
    version = commit.get("operationParameters", {}).get("version")
    if version is not None:
        return int(version)
    # It was restored to a time. The version of that time is the newest one with the same files.
    files = set(DeltaTable(table.table_uri, version=commit["version"]).file_uris())
    for before in range(commit["version"] - 1, -1, -1):
        try:
            if set(DeltaTable(table.table_uri, version=before).file_uris()) == files:
                return before
        except DeltaError:  # the log of older versions was deleted
            break
    raise LakeUnsuitable(
        f"the table at {table.table_uri} was restored to a time, and no version that is still known has the"
        " same files, so its position is unknown",
        "restore it to a version",
    )


def read(spark: SparkSession, uri: str) -> DataFrame:
    """Read the current version of any Delta table. Spark reads its Parquet files, and needs no jar."""
    uri = absolute_path(uri)
    if not DeltaTable.is_deltatable(uri):
        raise LakeUnsuitable(f"there is no Delta table at {uri}", "give the folder that holds _delta_log")
    return _read(spark, uri, DeltaTable(uri))


def _read(
    spark: SparkSession, uri: str, table: DeltaTable, first: date | None = None, last: date | None = None
) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    if features := table.protocol().reader_features:
        raise LakeUnsuitable(
            f"the table at {uri} uses features that are not supported: {', '.join(sorted(features))}",
            "read it with an engine that supports them, or write a copy without them",
        )
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()))
    files = _files(table, uri, first, last)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", uri).parquet(*files)


def _files(table: DeltaTable, uri: str, first: date | None, last: date | None) -> list[str]:
    """The paths of the files. For a local folder Delta returns URIs, in which a space is %20."""
    bounds = [(DAY, ">=", first), (DAY, "<=", last)]
    days = [(column, operator, day.isoformat()) for column, operator, day in bounds if day is not None]
    files = table.file_uris(file_pruning_predicate=days or None)
    if "://" in uri:
        return files
    encoded = f"{urlsplit(table.table_uri).path.rstrip('/')}/"
    return [f"{uri}/{file.removeprefix(encoded)}" if file.startswith(encoded) else file for file in files]
