"""Delta tables in the lake. Executors write Parquet files and the driver commits them, without a jar.

A commit has both the files and the position they go up to. Two archives that run at once cannot both commit:
Delta refuses the one that has read an older position. Before a commit the driver checks that it can see every
file, because an executor may have written into a folder that it does not share with the driver.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs
from pyspark.sql.types import StructType

from lonnymq.errors import InvalidArgument, LonnyMQError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = "day"
POSITION = "lonnymq"
MARK = "lonnymq.mark"
UPTO_XID = "lonnymq.upto_xid"
"""A key in the metadata of each commit that moves the position."""
SOURCE = "lonnymq.source"
WRITTEN_COLUMNS = "path string, day string, bytes long, rows long, stats string"
ROWS_PER_GROUP = 100_000


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


@dataclass(frozen=True)
class LakeTable:
    """A Delta table partitioned by day (UTC)."""

    uri: str
    source: str
    """Where its rows come from: the cluster, the schema and the view."""

    def open(self, schema: StructType) -> DeltaTable:
        """Open the table, or create it. Columns that an older version did not write are added."""
        if not DeltaTable.is_deltatable(self.uri):
            DeltaTable.create(
                self.uri,
                schema=arrow_schema(schema).append(pa.field(DAY, pa.date32())),
                mode="ignore",
                partition_by=[DAY],
                configuration={SOURCE: self.source},
                raise_if_key_not_exists=False,
            )
        table = DeltaTable(self.uri)
        found = table.metadata().configuration.get(SOURCE)
        if found != self.source:
            raise LakeUnsuitable(
                f"the rows of the table at {self.uri} come from {found or 'an unknown source'}, not from"
                f" {self.source}",
                "archive into another folder: transaction ids of another queue, or of a restored database,"
                " cannot be compared",
            )
        names = {field.name for field in table.schema().fields}
        missing = [
            field for field in Schema.from_arrow(arrow_schema(schema)).fields if field.name not in names
        ]
        if missing:
            table.alter.add_columns(missing)
        return table

    def position(self, table: DeltaTable) -> Position | None:
        """The position of the table, or of the older version to which it was restored. None: it is new."""
        version = _restored_to(table)
        if version != table.version():
            table = DeltaTable(self.uri, version=version)
        xid = table.transaction_version(POSITION)
        return None if xid is None else Position(xid, table.transaction_version(MARK) or None)

    def append(self, table: DeltaTable, rows: DataFrame, day_of: str, upto: Position) -> int:
        """Write the rows and the new position in one commit. Returns the number of rows."""
        written = written_files(rows, self.uri, day_of)
        self._check_shared(written)
        adds: list[AddAction | RemoveAction] = [
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
        try:
            table.create_write_transaction(
                adds,
                mode="append",
                schema=table.schema(),
                partition_by=[DAY],
                commit_properties=CommitProperties(
                    custom_metadata={UPTO_XID: str(upto.xid)},
                    app_transactions=[Transaction(POSITION, upto.xid), Transaction(MARK, upto.mark or 0)],
                ),
            )
        except CommitFailedError as error:
            raise LakeConflict(
                f"another archive has committed to {self.uri} meanwhile", "run one archive per folder"
            ) from error
        return sum(file.rows for file in written)

    def _check_shared(self, written: list[WrittenFile]) -> None:
        filesystem, folder = _filesystem(self.uri)
        found = filesystem.get_file_info([f"{folder}/{file.path}" for file in written])
        missing = [
            file
            for file, info in zip(written, found, strict=True)
            if info.type != fs.FileType.File or info.size != file.bytes
        ]
        if missing:
            raise LakeNotShared(
                f"the driver does not find {len(missing)} of {len(written)} files that executors wrote into"
                f" {self.uri}, such as {missing[0].path}; nothing was committed",
                "give a folder that the driver and all executors share under this path, or an object store",
            )


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
    if version is None:
        raise LakeUnsuitable(
            f"the table at {table.table_uri} was restored to a time, so its position is unknown",
            "restore it to a version",
        )
    return int(version)


@dataclass(frozen=True)
class WrittenFile:
    path: str
    day: str
    bytes: int
    rows: int
    stats: str


def written_files(rows: DataFrame, uri: str, day_of: str) -> list[WrittenFile]:
    """Let executors write the rows. Files of failed attempts are not in the result, so nobody reads them."""
    schema = arrow_schema(rows.schema)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark passes times in the session's time zone; days are in UTC.
        yield from _write((batch.cast(schema) for batch in batches), uri, day_of)

    return [WrittenFile(*row) for row in rows.mapInArrow(write, WRITTEN_COLUMNS).collect()]


def _write(batches: Iterable[pa.RecordBatch], uri: str, day_of: str) -> Iterator[pa.RecordBatch]:
    """Write one file per day that occurs."""
    filesystem, folder = _filesystem(uri)
    files: dict[str, _OpenFile] = {}
    for batch in batches:
        for day, part in _by_day(pa.Table.from_batches([batch]), day_of):
            if day not in files:
                files[day] = _OpenFile.create(filesystem, folder, day, part.schema)
            files[day].write(part)
    for file in files.values():
        yield file.close()


def _filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" in uri:
        filesystem, folder = fs.FileSystem.from_uri(uri)
        return filesystem, folder
    return fs.LocalFileSystem(), uri


def _by_day(table: pa.Table, day_of: str) -> Iterator[tuple[str, pa.Table]]:
    days = pc.strftime(table.column(day_of), "%Y-%m-%d")
    for day in pc.unique(days).to_pylist():
        yield day, table.filter(pc.equal(days, day))


@dataclass
class _OpenFile:
    filesystem: fs.FileSystem
    folder: str
    path: str
    day: str
    writer: pq.ParquetWriter
    rows: int = 0
    ids: tuple[int, int] | None = None

    @classmethod
    def create(cls, filesystem: fs.FileSystem, folder: str, day: str, schema: pa.Schema) -> _OpenFile:
        filesystem.create_dir(f"{folder}/{DAY}={day}", recursive=True)
        path = f"{DAY}={day}/part-{uuid.uuid4()}.zstd.parquet"
        writer = pq.ParquetWriter(f"{folder}/{path}", schema, filesystem=filesystem, compression="zstd")
        return cls(filesystem, folder, path, day, writer)

    def write(self, table: pa.Table) -> None:
        self.writer.write_table(table, row_group_size=ROWS_PER_GROUP)
        self.rows += table.num_rows
        bounds = pc.min_max(table.column("id")).as_py()
        lowest, highest = self.ids or (bounds["min"], bounds["max"])
        self.ids = min(lowest, bounds["min"]), max(highest, bounds["max"])

    def close(self) -> pa.RecordBatch:
        """Finish the file. Returns a row about it, as in WRITTEN_COLUMNS."""
        self.writer.close()
        size = self.filesystem.get_file_info(f"{self.folder}/{self.path}").size
        lowest, highest = self.ids or (None, None)
        stats = {"numRecords": self.rows, "minValues": {"id": lowest}, "maxValues": {"id": highest}}
        found = [[self.path], [self.day], [size], [self.rows], [json.dumps(stats)]]
        names = ["path", "day", "bytes", "rows", "stats"]
        return pa.RecordBatch.from_arrays([pa.array(value) for value in found], names=names)


def read(spark: SparkSession, uri: str) -> DataFrame:
    """Read the current version of any Delta table. Spark reads its Parquet files, and needs no jar."""
    from pyspark.sql.pandas.types import from_arrow_schema

    uri = absolute_path(uri)
    if not DeltaTable.is_deltatable(uri):
        raise LakeUnsuitable(f"there is no Delta table at {uri}", "give the folder that holds _delta_log")
    table = DeltaTable(uri)
    if features := table.protocol().reader_features:
        raise LakeUnsuitable(
            f"the table at {uri} uses features that are not supported: {', '.join(sorted(features))}",
            "read it with an engine that supports them, or write a copy without them",
        )
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()))
    files = _files(table, uri)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", uri).parquet(*files)


def _files(table: DeltaTable, uri: str) -> list[str]:
    """The paths of the files. For a local folder Delta returns URIs, in which a space is %20."""
    encoded = f"{urlsplit(table.table_uri).path.rstrip('/')}/"
    files = table.file_uris()
    if "://" in uri:
        return files
    return [f"{uri}/{file.removeprefix(encoded)}" if file.startswith(encoded) else file for file in files]


def arrow_schema(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
