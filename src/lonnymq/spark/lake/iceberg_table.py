"""Iceberg tables in the lake. Executors write Parquet files and the driver commits them, without a jar.

A snapshot has both the files and the position they go up to. Of two archives that run at once one is refused,
because it has read an older position. A commit by `optimize` or `expire` repeats the position, so it is in
the newest snapshot, and a rollback also goes back to the older position.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform
from sqlalchemy.exc import OperationalError

from lonnymq.errors import InvalidArgument
from lonnymq.spark.lake.lake_table import (
    ATTEMPTS,
    CATALOG_FILE,
    DAY,
    FOLDER,
    IDENTITY,
    SOURCE,
    ExpiredTable,
    LakeUnsuitable,
    OptimizedTable,
    Position,
    TableOptions,
    WrittenFile,
    check_source,
    conflict,
    missing_table,
)
from lonnymq.spark.lake.parquet_files import (
    ROWS_PER_GROUP,
    arrow_schema,
    check_shared,
    filesystem,
    not_writable,
    written_by_executors,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = "lonnymq"
UPTO_XID = "lonnymq.upto_xid"
MARK = "lonnymq.mark"
POSITION = "lonnymq.position"
"""A property of the table: the position, and the snapshot's sequence number. It is used if other programs
have committed since, and expired the snapshot."""
RETRIES = "commit.retry.num-retries"
"""Always 0: an append that pyiceberg repeats on top of another archive's would write rows twice."""
EPOCH = date(1970, 1, 1)


class IcebergLake:
    """Tables in an Iceberg catalog: the one given, or one in a SQLite file in the lake's folder."""

    format = "iceberg"

    def __init__(self, path: str, catalog: str | Mapping[str, str] | None = None) -> None:
        self.path = path
        self.catalog, self.namespace = _catalog(path, catalog)

    def open(self, options: TableOptions) -> IcebergLakeTable:
        schema = arrow_schema(options.schema)
        with _committing(options.uri):
            if not self.catalog.table_exists(self._identifier(options.name)):
                self._create(options, schema)
            found = self.table(options.name)
            check_source(options.uri, found.table.properties.get(SOURCE), options.source)
            missing = [field for field in schema if field.name not in found.table.schema().column_names]
            if missing:
                with found.table.update_schema() as update:
                    update.union_by_name(pa.schema(missing))
            if found.table.properties.get(RETRIES) != "0":
                with found.table.transaction() as change:
                    change.set_properties({RETRIES: "0"})
        return found

    def table(self, name: str) -> IcebergLakeTable:
        uri = f"{self.path}/{name}"
        try:
            table = self.catalog.load_table(self._identifier(name))
        except NoSuchTableError:
            raise missing_table(uri) from None
        if table.location().removeprefix("file://") != uri.removeprefix("file://"):
            raise LakeUnsuitable(
                f"the Iceberg table {name} of {self.path} is in {table.location()}: Iceberg records full"
                " paths, so a lake that was moved or copied cannot be used",
                "move it back, or archive into a new folder",
            )
        return IcebergLakeTable(uri, table)

    def names(self) -> list[str]:
        return sorted(name for *_, name in self.catalog.list_tables(self.namespace))

    def close(self) -> None:
        self.catalog.close()

    def _identifier(self, name: str) -> tuple[str, str]:
        return self.namespace, name

    def _create(self, options: TableOptions, schema: pa.Schema) -> None:
        if _has_snapshots(options.uri):
            raise LakeUnsuitable(
                f"{options.uri} has an Iceberg table that the catalog does not know",
                "give the catalog with which it was made, or archive into another folder",
            )
        self.catalog.create_namespace_if_not_exists(self.namespace)
        properties = {
            SOURCE: options.source,
            FOLDER: options.uri,
            "write.data.path": options.uri,
            RETRIES: "0",
        }
        with (
            contextlib.suppress(TableAlreadyExistsError),  # another archive was quicker
            self.catalog.create_table_transaction(
                self._identifier(options.name), schema, location=options.uri, properties=properties
            ) as create,
            create.update_spec() as spec,
        ):
            spec.add_field(options.day_of, DayTransform(), DAY)


def _has_snapshots(uri: str) -> bool:
    """Whether somebody has committed to a table there. A run that was killed when it created one has not."""
    target, folder = filesystem(uri)
    found = target.get_file_info(fs.FileSelector(f"{folder}/metadata", allow_not_found=True))
    return any(file.base_name.startswith("snap-") for file in found)


def _catalog(path: str, given: str | Mapping[str, str] | None) -> tuple[Catalog, str]:
    if isinstance(given, str):
        name, _, namespace = given.partition(".")
        return load_catalog(name), namespace or NAMESPACE
    if given is not None:
        properties = dict(given)
        return load_catalog("lonnymq", **properties), properties.pop("namespace", NAMESPACE)
    if "://" in path:
        raise InvalidArgument(
            f"an Iceberg lake at {path} needs a catalog, as it cannot be a file there",
            'give catalog="name" (--catalog), as in .pyiceberg.yaml, or its properties',
        )
    with _committing(path):
        Path(path).mkdir(parents=True, exist_ok=True)
        found = load_catalog("lonnymq", type="sql", uri=f"sqlite:///{path}/{CATALOG_FILE}", warehouse=path)
    return found, NAMESPACE


@dataclass
class IcebergLakeTable:
    """An Iceberg table partitioned by day (UTC)."""

    uri: str
    table: Table

    @property
    def identity(self) -> str:
        return self.table.properties.get(IDENTITY) or str(self.table.metadata.table_uuid)

    @property
    def folder(self) -> str | None:
        return self.table.properties.get(FOLDER)

    def is_copied(self) -> bool:
        return False  # a table that is not where it was created is refused

    def remember(self, identity: str) -> None:
        with _committing(self.uri), self.table.transaction() as change:
            change.set_properties({FOLDER: self.uri, IDENTITY: identity})

    @property
    def day_of(self) -> str | None:
        """The column of which the partition is the day. None: the table is not partitioned."""
        fields = self.table.spec().fields
        return self.table.schema().find_column_name(fields[0].source_id) if fields else None

    def position(self) -> Position | None:
        newest = snapshot = self.table.current_snapshot()
        while snapshot is not None:
            found = snapshot.summary.additional_properties if snapshot.summary else {}
            if UPTO_XID in found:
                return _position(found[UPTO_XID], found[MARK])
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self.table.snapshot_by_id(parent)
        if newest is None or POSITION not in self.table.properties:
            return None
        xid, mark, sequence = self.table.properties[POSITION].split()
        if (newest.sequence_number or 0) < int(sequence):
            raise LakeUnsuitable(
                f"the position of the table at {self.uri} is unknown: the snapshots that had it have expired",
                "archive into another folder",
            )
        return _position(xid, mark)

    def write(self, rows: DataFrame) -> list[WrittenFile]:
        # With the ids of the columns, so that every engine recognises them.
        columns = schema_to_pyarrow(self.table.schema())
        schema = pa.schema([columns.field(name) for name in rows.columns])
        return written_by_executors(rows, self.uri, self.day_of or "", schema)

    def commit(self, written: list[WrittenFile], upto: Position) -> None:
        check_shared(self.uri, written)
        before, position = self.position(), _properties(upto)
        paths = [f"{self.uri}/{file.path}" for file in written]
        with _committing(self.uri):
            for attempt in range(ATTEMPTS):
                sequence = self.table.last_sequence_number + 1
                try:
                    with self.table.transaction() as change:
                        change.set_properties({POSITION: f"{upto.xid} {upto.mark or 0} {sequence}"})
                        change.add_files(paths, snapshot_properties=position, check_duplicate_files=False)
                except CommitFailedException:
                    self.table.refresh()
                    # Only if it was `optimize` or `expire`, which leave the position.
                    if attempt + 1 == ATTEMPTS or self.position() != before:
                        raise
                else:
                    return

    def replace(self, written: list[WrittenFile]) -> None:
        check_shared(self.uri, written)
        old, new = self._tasks(), [f"{self.uri}/{file.path}" for file in written]
        if old or new:
            with _committing(self.uri):
                self._replace(old, new)

    def optimize(self, file_bytes: int) -> OptimizedTable:
        before = len(self._tasks())
        old: list[DataFile] = []
        new: list[str] = []
        with _committing(self.uri):
            for group in self._groups(file_bytes):
                old += group
                new.append(self._merged(group))
            if old:
                self._replace(old, new)
        return OptimizedTable(self._name(), before, len(self._tasks()))

    def expire(self, before: date, unused_for: timedelta, *, is_dry_run: bool) -> ExpiredTable:
        old = [file for file in self._tasks() if self.day_of is not None and _day(file) < before]
        with _committing(self.uri):
            if old and not is_dry_run:
                self._replace(old, [])
            deleted = self._delete_unused(datetime.now(UTC) - unused_for, is_dry_run=is_dry_run)
        return ExpiredTable(
            self._name(),
            sum(file.record_count for file in old),
            len({_day(file) for file in old}),
            len(old),
            deleted,
        )

    def read(self, spark: SparkSession, first: date | None = None, last: date | None = None) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import DateType

        schema = from_arrow_schema(schema_to_pyarrow(self.table.schema(), include_field_ids=False))
        if self.day_of is not None:
            schema = schema.add(DAY, DateType())
        files = [file.file_path for file in self._tasks(self._between(first, last))]
        if not files:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).option("basePath", self.uri).parquet(*files)

    def _name(self) -> str:
        return self.uri.rpartition("/")[2]

    def _between(self, first: date | None, last: date | None) -> str | None:
        bounds = []
        if self.day_of is not None and first is not None:
            bounds.append(f"{self.day_of} >= '{_midnight(first)}'")
        if self.day_of is not None and last is not None:
            bounds.append(f"{self.day_of} < '{_midnight(last + timedelta(days=1))}'")
        return " AND ".join(bounds) or None

    def _tasks(self, where: str | None = None) -> list[DataFile]:
        tasks = list((self.table.scan() if where is None else self.table.scan(where)).plan_files())
        if any(task.delete_files for task in tasks):
            raise LakeUnsuitable(
                f"single rows of the table at {self.uri} were deleted by another program",
                "rewrite its data files with that program first",
            )
        return [task.file for task in tasks]

    def _groups(self, file_bytes: int) -> Iterator[list[DataFile]]:
        """Small files that become one file, of the same day."""
        by_day: dict[Any, list[DataFile]] = defaultdict(list)
        for file in self._tasks():
            if file.file_size_in_bytes < file_bytes:
                by_day[file.partition].append(file)
        for files in by_day.values():
            groups: list[list[DataFile]] = [[]]
            for file in files:
                if sum(one.file_size_in_bytes for one in [*groups[-1], file]) > file_bytes:
                    groups.append([])
                groups[-1].append(file)
            yield from (group for group in groups if len(group) > 1)

    def _merged(self, files: list[DataFile]) -> str:
        """Write the rows of these files into one file. Columns that older files lack are null."""
        schema = schema_to_pyarrow(self.table.schema())
        target, _ = filesystem(self.uri)
        path = f"{files[0].file_path.rpartition('/')[0]}/part-{uuid.uuid4()}.zstd.parquet"
        with pq.ParquetWriter(_in_filesystem(path), schema, filesystem=target, compression="zstd") as writer:
            for file in files:
                with pq.ParquetFile(_in_filesystem(file.file_path), filesystem=target) as source:
                    for batch in source.iter_batches(ROWS_PER_GROUP):
                        writer.write_batch(_with_columns(batch, schema), ROWS_PER_GROUP)
        return path

    def _replace(self, old: list[DataFile], new: list[str]) -> None:
        """Replace files, unless another program has replaced one of them. The position stays."""
        paths = {file.file_path for file in old}
        for attempt in range(ATTEMPTS):
            position = self.position()
            added = [parquet_file_to_data_file(self.table.io, self.table.metadata, path) for path in new]
            try:
                with self.table.transaction() as change:
                    properties = {} if position is None else _properties(position)
                    with change.update_snapshot(snapshot_properties=properties).overwrite() as snapshot:
                        for file in old:
                            snapshot.delete_data_file(file)
                        for file in added:
                            snapshot.append_data_file(file)
            except CommitFailedException:
                self.table.refresh()
                if attempt + 1 == ATTEMPTS or not paths <= {file.file_path for file in self._tasks()}:
                    raise
            else:
                return

    def _delete_unused(self, before: datetime, *, is_dry_run: bool) -> int:
        """Forget old snapshots, and delete old files that no snapshot needs. Returns the number of files."""
        kept = {ref.snapshot_id for ref in self.table.refs().values()}
        limit = before.timestamp() * 1000
        old = {one.snapshot_id for one in self.table.snapshots() if one.timestamp_ms < limit} - kept
        if old and not is_dry_run:
            self.table.maintenance.expire_snapshots().by_ids(list(old)).commit()
        needed = set(self._needed(old))
        target, folder = filesystem(self.uri)
        unused = [
            found.path
            for found in target.get_file_info(fs.FileSelector(folder, recursive=True))
            if found.type == fs.FileType.File and found.mtime < before and found.path not in needed
        ]
        if not is_dry_run:
            for path in unused:
                target.delete_file(path)
        return len(unused)

    def _needed(self, without: set[int]) -> Iterator[str]:
        """The files of the current metadata, of its predecessors, and of all snapshots but these."""
        yield _in_filesystem(self.table.metadata_location)
        for former in self.table.metadata.metadata_log:
            yield _in_filesystem(former.metadata_file)
        for snapshot in self.table.snapshots():
            if snapshot.snapshot_id in without:
                continue
            yield _in_filesystem(snapshot.manifest_list)
            for manifest in snapshot.manifests(self.table.io):
                yield _in_filesystem(manifest.manifest_path)
                for entry in manifest.fetch_manifest_entry(self.table.io):
                    yield _in_filesystem(entry.data_file.file_path)


@contextmanager
def _committing(uri: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedException as error:
        raise conflict(uri) from error
    except OperationalError as error:  # of SQLite
        raise not_writable(uri, Exception(str(error.orig))) from error
    except OSError as error:
        raise not_writable(uri, error) from error


def _position(xid: str, mark: str) -> Position:
    return Position(int(xid), int(mark) or None)


def _properties(position: Position) -> dict[str, str]:
    return {UPTO_XID: str(position.xid), MARK: str(position.mark or 0)}


def _day(file: DataFile) -> date:
    return EPOCH + timedelta(days=file.partition[0])


def _midnight(day: date) -> str:
    return f"{day.isoformat()}T00:00:00+00:00"


def _in_filesystem(path: str) -> str:
    """The path as the file system of Arrow knows it."""
    return filesystem(path)[1]


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns: Iterable[pa.Array] = (
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    )
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)
