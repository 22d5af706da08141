"""What waits or is leased now, as a table: nothing is taken.

One partition is one statement, which sees one moment: so it is, unless `numPartitions` asks for more. Ranges
of ids are then read side by side, each at a moment of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import adbc_driver_manager
import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lonnymq.spark.columns import WAITING, Columns
from lonnymq.spark.connection import Connecting
from lonnymq.spark.source_options import InvalidOption, Options

OPTIONS = ("includeContent", "numPartitions")
MOST_PARTITIONS = 10_000
VIEW = "messages"


@dataclass(frozen=True)
class Ids(InputPartition):
    """From one id up to another; None: there is no bound."""

    begin: int | None = None
    end: int | None = None


def waiting_columns(given: Mapping[str, str]) -> Columns:
    return (
        WAITING
        if Options(given, OPTIONS).boolean("includeContent", default=True)
        else WAITING.without(["content"])
    )


class WaitingReader(DataSourceReader):
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        options = Options(given, OPTIONS)
        self._columns = waiting_columns(given)
        self._partitions = options.integer("numPartitions", 1, at_most=MOST_PARTITIONS) or 1
        self._connecting = Connecting.of(given)
        if schema != self._columns.schema():
            raise InvalidOption("the columns of what waits are given", "leave out .schema(...), and select")

    def partitions(self) -> list[InputPartition]:
        if self._partitions == 1:
            return [Ids()]
        query = sql.SQL("SELECT MIN(id), MAX(id) FROM {}").format(self._view())
        with self._connecting.connect() as connection:
            try:
                first, last = connection.execute(query).fetchall()[0]
            except psycopg.Error as error:
                self._connecting.refuse(error, VIEW)
        return [] if first is None else list(split(first, last, self._partitions))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Ids):  # Spark's own, where there are none of ours
            return
        with self._connecting.adbc() as connection, connection.cursor() as cursor:
            try:
                cursor.execute(self._query(partition))
                for batch in cursor.fetch_record_batch():
                    yield self._columns.batch(batch)
            except adbc_driver_manager.Error as error:
                self._connecting.refuse(error, VIEW)

    def _query(self, ids: Ids) -> str:
        bounds = [
            sql.SQL("id {} {}").format(sql.SQL(compared), sql.Literal(bound))
            for compared, bound in ((">=", ids.begin), ("<", ids.end))
            if bound is not None
        ]
        where = sql.SQL(" AND ").join([sql.SQL("TRUE"), *bounds])
        asked = sql.SQL(self._columns.asked())
        return sql.SQL("SELECT {} FROM {} WHERE {}").format(asked, self._view(), where).as_string()

    def _view(self) -> sql.Identifier:
        return sql.Identifier(self._connecting.schema, VIEW)


def split(first: int, last: int, parts: int) -> Iterator[Ids]:
    """The ids from `first` to `last` in ranges of one length; the outer ones have no end.

    >>> [(ids.begin, ids.end) for ids in split(1, 10, 3)]
    [(None, 5), (5, 9), (9, None)]
    """
    length = (last - first) // parts + 1
    inner = list(range(first + length, last + 1, length))
    yield from map(Ids, [None, *inner], [*inner, None])
