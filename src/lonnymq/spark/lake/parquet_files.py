"""The Parquet files of a table. Executors write them, one per day that occurs; the driver commits them.

Before a commit the driver checks that it can see every file, because an executor may have written into a
folder that it does not share with the driver.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql.types import StructType

from lonnymq.spark.lake.lake_table import DAY, LakeNotShared, LakeNotWritable, WrittenFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITTEN_COLUMNS = "path string, day string, bytes long, rows long, stats string"
ROWS_PER_GROUP = 100_000


def written_by_executors(rows: DataFrame, uri: str, day_of: str, schema: pa.Schema) -> list[WrittenFile]:
    """Let executors write the rows. Files of failed attempts are not in the result, so nobody reads them."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark passes times in the session's time zone; days are in UTC.
        yield from write_by_day((batch.cast(schema) for batch in batches), uri, day_of)

    return [WrittenFile(*row) for row in rows.mapInArrow(write, WRITTEN_COLUMNS).collect()]


def write_by_day(batches: Iterable[pa.RecordBatch], uri: str, day_of: str) -> Iterator[pa.RecordBatch]:
    """Write one file per day that occurs. Yields a row about each, as in WRITTEN_COLUMNS."""
    with writing(uri):
        yield from _write(batches, uri, day_of)


@contextmanager
def writing(uri: str) -> Iterator[None]:
    """Say in one sentence why a file could not be written."""
    try:
        yield
    except OSError as error:
        raise not_writable(uri, error) from error


def not_writable(uri: str, error: Exception) -> LakeNotWritable:
    """
    >>> not_writable("/srv/lake", OSError(28, "Error. Detail: [errno 28] No space left on device"))
    LakeNotWritable('could not write into /srv/lake: No space left on device; nothing was committed')
    """
    reason = os.strerror(number) if (number := os_error(error)) else str(error).splitlines()[0]
    return LakeNotWritable(
        f"could not write into {uri}: {reason}; nothing was committed",
        "make room, or let the driver and the executors write there, and run it again",
    )


def os_error(error: Exception) -> int | None:
    """The number of the operating system's error. Some libraries have it only in the message.

    >>> os_error(Exception("No space left on device (os error 28)")), os_error(Exception("no"))
    (28, None)
    """
    if isinstance(error, OSError) and error.errno:
        return error.errno
    found = re.search(r"\(os error (\d+)\)|Os \{ code: (\d+)", str(error))
    return found and int(found[1] or found[2])


def _write(batches: Iterable[pa.RecordBatch], uri: str, day_of: str) -> Iterator[pa.RecordBatch]:
    target, folder = filesystem(uri)
    files: dict[str, _OpenFile] = {}
    for batch in batches:
        for day, part in _by_day(pa.Table.from_batches([batch]), day_of):
            if day not in files:
                files[day] = _OpenFile.create(target, folder, day, part.schema)
            files[day].write(part)
    for file in files.values():
        yield file.close()


def filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" in uri:
        found, folder = fs.FileSystem.from_uri(uri)
        return found, folder
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


def check_shared(uri: str, written: list[WrittenFile]) -> None:
    target, folder = filesystem(uri)
    found = target.get_file_info([f"{folder}/{file.path}" for file in written])
    missing = [
        file
        for file, info in zip(written, found, strict=True)
        if info.type != fs.FileType.File or info.size != file.bytes
    ]
    if missing:
        raise LakeNotShared(
            f"the driver does not find {len(missing)} of {len(written)} files that executors wrote into"
            f" {uri}, such as {missing[0].path}; nothing was committed",
            "give a folder that the driver and all executors share under this path, or an object store",
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
