"""Delta tables in the lake. Executors write Parquet files and the driver commits them, without a jar.

A commit has both the files and the position they go up to. Two archives that run at once cannot both commit:
Delta refuses the one that has read an older position.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from lonnymq.spark.lake.lake_table import (
    DAY,
    SOURCE,
    LakeConflict,
    LakeUnsuitable,
    Position,
    TableOptions,
    absolute_path,
    check_source,
)
from lonnymq.spark.lake.parquet_files import arrow_schema, check_shared, written_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POSITION = "lonnymq"
MARK = "lonnymq.mark"
UPTO_XID = "lonnymq.upto_xid"
"""A key in the metadata of each commit that moves the position."""


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
        if not DeltaTable.is_deltatable(uri):
            DeltaTable.create(
                uri,
                schema=schema.append(pa.field(DAY, pa.date32())),
                mode="ignore",
                partition_by=[DAY],
                configuration={SOURCE: options.source},
                raise_if_key_not_exists=False,
            )
        table = DeltaTable(uri)
        check_source(uri, table.metadata().configuration.get(SOURCE), options.source)
        names = {field.name for field in table.schema().fields}
        missing = [field for field in Schema.from_arrow(schema).fields if field.name not in names]
        if missing:
            table.alter.add_columns(missing)
        return cls(uri, table, options.day_of)

    def position(self) -> Position | None:
        """The position of the table, or of the older version to which it was restored."""
        table, version = self.table, _restored_to(self.table)
        if version != table.version():
            table = DeltaTable(self.uri, version=version)
        xid = table.transaction_version(POSITION)
        return None if xid is None else Position(xid, table.transaction_version(MARK) or None)

    def append(self, rows: DataFrame, upto: Position) -> int:
        written = written_files(rows, self.uri, self.day_of)
        check_shared(self.uri, written)
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
            self.table.create_write_transaction(
                adds,
                mode="append",
                schema=self.table.schema(),
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

    def read(self, spark: SparkSession, first: date | None = None, last: date | None = None) -> DataFrame:
        return _read(spark, self.uri, self.table, first, last)


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
