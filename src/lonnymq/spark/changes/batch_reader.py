"""Reads the rows between two positions or two times, as a table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lonnymq.spark.changes.change_view import PLANNER_SETTINGS, ChangeView, Cursor
from lonnymq.spark.changes.filters import PushedFilters
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.range_reader import ChangePartition, RangeReader
from lonnymq.spark.changes.read_options import ReadOptions
from lonnymq.spark.changes.snapshots import EARLIEST
from lonnymq.spark.connection import QueueConnection
from lonnymq.spark.source_options import InvalidOption


class BatchReader(DataSourceReader):
    def __init__(self, view: ChangeView, options: ReadOptions) -> None:
        options.limits.refuse_given()
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
        self.options.chosen.check(cursor)
        reader, state = self._range_reader(), self.view.state(cursor)
        start, end = self.options.starting, self.options.ending
        if not isinstance(start, Offset):
            start = Offset(EARLIEST, state.system)
        checked: list[Offset] = []
        if not isinstance(end, Offset):
            end = reader.marked(cursor, state.snapshot, state.system)
            checked.append(end)
        reader.check_range(cursor, start, end, state, checked=checked)
        return reader.partitions(cursor, start, end, state)

    def _range_reader(self) -> RangeReader:
        options, start = self.options, self.options.starting
        view = self.view.where(options.chosen.conditions()).where(self.pushed.conditions)
        view = view.between_times(options.since, options.until)
        if isinstance(start, Offset):
            view = view.between_times(start.since, None)
        return options.range_reader(view)
