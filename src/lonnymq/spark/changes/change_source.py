"""The part that the formats of history and of dead letters share: a batch reader and a stream reader.

A batch of a stream goes up to the present, or less far where the trigger is limited. All rows of a
transaction are in one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lonnymq.errors import InvalidArgument
from lonnymq.spark.changes.change_view import PLANNER_SETTINGS, ChangeView, Cursor, DatabaseState
from lonnymq.spark.changes.filters import PushedFilters
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.range_reader import ChangePartition, RangeReader
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot
from lonnymq.spark.columns import COLUMN_OPTIONS
from lonnymq.spark.connection import QueueAddress, QueueConnection
from lonnymq.spark.source_options import InvalidOption, SourceOptions

KNOWN = (
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    *COLUMN_OPTIONS,
)


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of a reader."""

    address: QueueAddress
    starting: str | Offset
    ending: str | Offset
    limit: int | None
    min_partitions: int
    fails_on_data_loss: bool

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        options = SourceOptions(given, KNOWN)
        return cls(
            QueueAddress.of(given),
            _offset(options, "startingOffsets", "earliest"),
            _offset(options, "endingOffsets", "latest"),
            options.integer("maxOffsetsPerTrigger"),
            options.integer("minPartitions", at_most=10_000) or 1,
            options.boolean("failOnDataLoss", default=True),
        )

    def range_reader(self, view: ChangeView) -> RangeReader:
        return RangeReader(view, self.address, self.min_partitions, self.fails_on_data_loss)


def _offset(options: SourceOptions, name: str, default: str) -> str | Offset:
    text = options.text(name) or default
    return text.lower() if text.lower() in {"earliest", "latest"} else Offset.parse(name, text)


class ChangeSource(DataSource):
    def change_view(self, schema: str) -> ChangeView:
        raise NotImplementedError

    def schema(self) -> StructType:
        return self._view_and_options()[0].columns.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check(schema)
        return BatchReader(*self._view_and_options())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        self._check(schema)
        return StreamReader(*self._view_and_options())

    def view(self) -> ChangeView:
        """With the columns that the options choose."""
        view = self.change_view(QueueAddress.of(self.options).schema)
        return replace(view, columns=view.columns.chosen(SourceOptions(self.options, KNOWN)))

    def _view_and_options(self) -> tuple[ChangeView, ReadOptions]:
        return self.view(), ReadOptions.of(self.options)

    def _check(self, schema: StructType) -> None:
        if schema.simpleString() != self.schema().simpleString():
            raise InvalidArgument(
                f"the columns of {self.name()} are fixed", "leave out .schema(...), and select columns"
            )


class BatchReader(DataSourceReader):
    def __init__(self, view: ChangeView, options: ReadOptions) -> None:
        if options.limit is not None:
            raise InvalidOption("maxOffsetsPerTrigger is for streams", "a batch ends at endingOffsets")
        if options.starting == "latest" or options.ending == "earliest":
            raise InvalidOption(
                "a batch that starts at latest, or ends at earliest, has no rows", "leave the option out"
            )
        self.view = view
        self.options = options
        self.pushed = PushedFilters(view.texts, view.times)

    @property
    def pushFilters(self) -> PushedFilters:  # noqa: N802
        return self.pushed

    def partitions(self) -> list[ChangePartition]:
        driver = QueueConnection(self.options.address, PLANNER_SETTINGS)
        try:
            return driver.read(self._partitions)
        finally:
            driver.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._range_reader().rows(partition)

    def _partitions(self, cursor: Cursor) -> list[ChangePartition]:
        reader, state = self._range_reader(), self.view.state(cursor)
        start, end = self.options.starting, self.options.ending
        if not isinstance(start, Offset):
            start = Offset(EARLIEST, state.system)
        if not isinstance(end, Offset):
            end = reader.marked(cursor, state.snapshot, state.system)
        reader.check_range(cursor, start, end, state)
        return reader.partitions(cursor, start, end, state)

    def _range_reader(self) -> RangeReader:
        return self.options.range_reader(replace(self.view, conditions=tuple(self.pushed.conditions)))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, view: ChangeView, options: ReadOptions) -> None:
        if options.ending != "latest":
            raise InvalidOption("endingOffsets is for batches", "leave it out: a stream has no end")
        self.view = view
        self.options = options
        self.reader = options.range_reader(view)
        self.driver = QueueConnection(options.address, PLANNER_SETTINGS)
        self.checked: tuple[int, Offset] | None = None
        """The connection, by its number, and the last position that passed `check` on it."""
        self.target: Snapshot | None = None
        self.latest: Offset | None = None
        self.searched: tuple[Snapshot, Snapshot] | None = None
        """There are no rows between these two, so an idle stream does not search there again."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self.driver.read(self._initial).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self.driver.read(self._state).snapshot

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.options.limit is None else ReadMaxRows(self.options.limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Returns the start if there is no new row, so that other transactions do not cause empty batches."""
        begin = Offset.of(start)
        end = self.driver.read(lambda cursor: self._end(cursor, begin, limit))
        return start if end is None else end.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self.latest is None else self.latest.as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ChangePartition]:
        first, last = Offset.of(start), Offset.of(end)
        return self.driver.read(lambda cursor: self._partitions(cursor, first, last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reader.rows(partition)

    def stop(self) -> None:
        self.driver.close()

    # Each of the following methods runs all its queries on one connection. So it cannot happen that one
    # query reads from a database and the next one from another that has replaced it.

    def _state(self, cursor: Cursor) -> DatabaseState:
        state = self.view.state(cursor)
        self.latest = Offset(state.snapshot, state.system)
        return state

    def _initial(self, cursor: Cursor) -> Offset:
        state, starting = self._state(cursor), self.options.starting
        if isinstance(starting, Offset):
            self.reader.check(cursor, starting, state)
            return starting
        earliest = Offset(EARLIEST, state.system)
        if starting == "earliest" or not self.view.has_rows(cursor, EARLIEST, state.snapshot):
            return earliest
        return self.reader.end(cursor, earliest, state.snapshot, None)

    def _end(self, cursor: Cursor, start: Offset, limit: ReadLimit) -> Offset | None:
        state = self._state(cursor)
        self._check_start(cursor, start, state)
        self.reader.check_kept(start, state)
        target, begin = self.target or state.snapshot, start.snapshot
        since = self.searched[1] if self.searched is not None and self.searched[0] == begin else begin
        if not self.view.has_rows(cursor, since, target):
            self.searched = (begin, target)
            return None
        end = self.reader.end(
            cursor, start, target, limit.max_rows if isinstance(limit, ReadMaxRows) else None
        )
        self.reader.check_range(cursor, start, end, state)
        return end

    def _partitions(self, cursor: Cursor, start: Offset, end: Offset) -> list[ChangePartition]:
        state = self._state(cursor)
        self.reader.check_range(cursor, start, end, state)
        return self.reader.partitions(cursor, start, end, state)

    def _check_start(self, cursor: Cursor, start: Offset, state: DatabaseState) -> None:
        """Compare the mark once per connection: an idle stream comes here a hundred times per second."""
        if self.checked != (self.driver.opened, start):
            self.reader.check(cursor, start, state)
            self.checked = (self.driver.opened, start)
        self.reader.check_state(start, state)
