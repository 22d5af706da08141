"""The messages that wait or are leased now, as a table. Reading does not dequeue them.

By default there is one partition, so one statement reads all rows at one moment. With `minPartitions`, ranges
of ids are read in parallel, and each range at a slightly different moment.
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

from lonnymq.spark.columns import COLUMN_OPTIONS, WAITING, Columns
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.message_filter import FILTER_OPTIONS, MessageFilter
from lonnymq.spark.source_options import InvalidOption, SourceOptions

OPTIONS = ("minPartitions", *COLUMN_OPTIONS, *FILTER_OPTIONS)
MOST_PARTITIONS = 10_000
VIEW = "messages"


@dataclass(frozen=True)
class IdRange(InputPartition):
    """From `begin` to before `end`; None means no bound."""

    begin: int | None = None
    end: int | None = None


def waiting_columns(given: Mapping[str, str]) -> Columns:
    return WAITING.chosen(SourceOptions(given, OPTIONS))


class WaitingReader(DataSourceReader):
    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        options = SourceOptions(given, OPTIONS)
        self._columns = waiting_columns(given)
        self._filter = MessageFilter.of(options)
        self._partitions = options.integer("minPartitions", 1, at_most=MOST_PARTITIONS) or 1
        self._address = QueueAddress.of(given)
        if schema != self._columns.schema():
            raise InvalidOption(
                "the columns of waiting messages are fixed", "leave out .schema(...), and select columns"
            )

    def partitions(self) -> list[InputPartition]:
        if self._partitions == 1 and self._filter.pattern is None:
            return [IdRange()]
        query = sql.SQL("SELECT MIN(id), MAX(id) FROM {}").format(self._view())
        with self._address.connect() as connection:
            self._filter.check(connection.cursor())
            if self._partitions == 1:
                return [IdRange()]
            try:
                first, last = connection.execute(query).fetchall()[0]
            except psycopg.Error as error:
                self._address.refuse(error, VIEW)
        return [] if first is None else list(split(first, last, self._partitions))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, IdRange):  # Spark makes up a partition where we returned none
            return
        with self._address.adbc() as connection, connection.cursor() as cursor:
            try:
                cursor.execute(self._query(partition))
                for batch in cursor.fetch_record_batch():
                    yield self._columns.batch(batch)
            except adbc_driver_manager.Error as error:
                self._address.refuse(error, VIEW)

    def _query(self, ids: IdRange) -> str:
        bounds = [
            sql.SQL("id {} {}").format(sql.SQL(operator), sql.Literal(bound))
            for operator, bound in ((">=", ids.begin), ("<", ids.end))
            if bound is not None
        ]
        chosen = map(sql.SQL, self._filter.conditions())
        where = sql.SQL(" AND ").join([sql.SQL("TRUE"), *bounds, *chosen])
        columns = sql.SQL(self._columns.select_list())
        return sql.SQL("SELECT {} FROM {} WHERE {}").format(columns, self._view(), where).as_string()

    def _view(self) -> sql.Identifier:
        return sql.Identifier(self._address.schema, VIEW)


def split(first: int, last: int, parts: int) -> Iterator[IdRange]:
    """Cut the ids from `first` to `last` into ranges of equal length; the outer ranges are open-ended.

    >>> [(ids.begin, ids.end) for ids in split(1, 10, 3)]
    [(None, 5), (5, 9), (9, None)]
    """
    length = (last - first) // parts + 1
    inner = list(range(first + length, last + 1, length))
    yield from map(IdRange, [None, *inner], [*inner, None])
