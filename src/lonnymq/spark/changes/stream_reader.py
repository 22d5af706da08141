"""Reads rows as a stream, each row once.

A batch goes up to the present, or less far where the trigger is limited. All rows of a transaction are in one
batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lonnymq.spark.changes.change_view import PLANNER_SETTINGS, ChangeView, Cursor, DatabaseState
from lonnymq.spark.changes.offsets import ROWS_BEHIND, Offset
from lonnymq.spark.changes.range_reader import ChangePartition, RangeReader
from lonnymq.spark.changes.read_options import ReadOptions
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot
from lonnymq.spark.connection import QueueConnection
from lonnymq.spark.source_options import InvalidOption

IDLE_PAUSE_S = 0.1
"""Without a pause, Spark asks an idle stream a hundred times per second."""
PASS_AFTER_S = 10.0
"""How often a stream whose filter lets no row through moves on, with an empty batch. Otherwise it would read
all these rows again after a restart, and fail when they are dropped.
"""
COUNTED_AT_MOST = 100_000


@dataclass
class Searched:
    """There are `rows` rows between the start and a later snapshot; or more, if a batch can begin."""

    start: Offset
    upto: Snapshot
    rows: int = 0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, view: ChangeView, options: ReadOptions) -> None:
        if options.ending != "latest":
            raise InvalidOption("endingOffsets is for batches", "leave it out: a stream has no end")
        if options.until is not None:
            raise InvalidOption("endingTimestamp is for batches", "leave it out: a stream has no end")
        self.view = view
        self.options = options
        self.limits = options.limits
        self.reader = options.range_reader(view.where(options.chosen.conditions()))
        self.driver = QueueConnection(options.address, PLANNER_SETTINGS)
        self.checked: tuple[int, tuple[Offset, ...]] = (0, ())
        """The connection, by its number, and the last positions that passed `check` on it."""
        self.target: Snapshot | None = None
        self.latest: dict[str, Any] | None = None
        self.searched: Searched | None = None
        self.batch_at: float | None = None
        self.passed_at = time.monotonic()
        self.is_idle = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self.driver.read(self._initial).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self.driver.read(self.view.state).snapshot

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.limits.max_rows is not None:
            return ReadMaxRows(self.limits.max_rows)
        return ReadAllAvailable() if self.limits.max_bytes is None else ReadMaxBytes(self.limits.max_bytes)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Returns the start if there is no new row, so that other transactions do not cause empty batches."""
        if self.is_idle and self.target is None:
            time.sleep(IDLE_PAUSE_S)
        begin = Offset.of(start)
        end = self.driver.read(lambda cursor: self._end(cursor, begin, limit))
        self.is_idle = end is None
        if end is None:
            return start
        self.batch_at = self.passed_at = time.monotonic()
        return end.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The present, and how many rows the stream is behind it; Spark shows it with a query's progress."""
        return self.latest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ChangePartition]:
        first, last = Offset.of(start), Offset.of(end)
        return self.driver.read(lambda cursor: self._partitions(cursor, first, last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reader.rows(partition)

    def stop(self) -> None:
        self.driver.close()

    # Each of the following methods runs all its queries on one connection. So it cannot happen that one
    # query reads from a database and the next one from another that has replaced it.

    def _initial(self, cursor: Cursor) -> Offset:
        self.options.chosen.check(cursor)
        state, starting = self.view.state(cursor), self.options.starting
        if isinstance(starting, Offset):
            self.reader.check(cursor, starting, state)
            return starting
        earliest = Offset(EARLIEST, state.system, since=self.options.since)
        if self.options.since is not None:
            return self._first_since(cursor, earliest, state)
        if starting == "earliest" or not self.view.has_rows(cursor, EARLIEST, state.snapshot):
            return earliest
        return self.reader.end(cursor, earliest, state.snapshot, None)

    def _first_since(self, cursor: Cursor, earliest: Offset, state: DatabaseState) -> Offset:
        """Before the first transaction with a row that is not too old. Offsets keep the time, because later
        transactions may have older rows.
        """
        later = self.view.between_times(earliest.since, None)
        first = later.first(cursor, EARLIEST, state.snapshot)
        if first is not None:
            if self.view.is_trimmed and first <= state.trimmed:
                return earliest  # whatever is kept
            return self.reader.marked_from(cursor, earliest, EARLIEST.until(state.snapshot, first))
        if not self.view.has_rows(cursor, EARLIEST, state.snapshot):
            return earliest
        return self.reader.end(cursor, earliest, state.snapshot, None)

    def _end(self, cursor: Cursor, start: Offset, limit: ReadLimit) -> Offset | None:
        self._check_pattern(cursor)
        state, reader = self.view.state(cursor), self._from(start)
        self._check_start(cursor, start, state)
        reader.check_kept(start, state)
        target = self.target or state.snapshot
        found = self._search(cursor, reader, start, target)
        if not self._is_due(found.rows):
            end = None if found.rows else self._pass(cursor, reader, start, target)
        else:
            rows, size = self._limits(limit)
            end = reader.end(cursor, start, target, rows, size)
            reader.check_range(cursor, start, end, state, checked=[start, end])
            self._remember(end)
        behind = reader.view.count_between(
            cursor, found.upto if end is None else end.snapshot, state.snapshot, COUNTED_AT_MOST
        )
        self.latest = Offset(state.snapshot, state.system).as_json() | {
            ROWS_BEHIND: min(COUNTED_AT_MOST, behind + (found.rows if end is None else 0))
        }
        return end

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        """How many rows and bytes a batch has at most. Trigger.Once reads everything."""
        if isinstance(limit, ReadAllAvailable):
            return None, None
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self.limits.max_rows
        return rows, self.limits.max_bytes

    def _search(self, cursor: Cursor, reader: RangeReader, start: Offset, target: Snapshot) -> Searched:
        """Count what is new, but only as far as it matters, and never the same rows again."""
        found = self.searched
        if found is None or found.start != start:
            found = Searched(start, start.snapshot)
        wanted = (self.limits.min_rows or 1) - found.rows
        if wanted > 0:
            found.rows += reader.view.count_between(cursor, found.upto, target, wanted)
            found.upto = target
        self.searched = found
        return found

    def _is_due(self, rows: int) -> bool:
        least = self.limits.min_rows
        if rows == 0 or least is None or rows >= least or self.target is not None:
            return rows > 0
        return self.batch_at is None or (time.monotonic() - self.batch_at) * 1000 >= self.limits.max_delay_ms

    def _pass(self, cursor: Cursor, reader: RangeReader, start: Offset, target: Snapshot) -> Offset | None:
        """The end of an empty batch, after rows that the filter leaves out."""
        is_early = self.target is None and time.monotonic() < self.passed_at + PASS_AFTER_S
        if is_early or not reader.view.conditions:
            return None
        self.passed_at = time.monotonic()
        if not self.view.has_rows(cursor, start.snapshot, target):
            return None
        return reader.end(cursor, start, target, None)

    def _partitions(self, cursor: Cursor, start: Offset, end: Offset) -> list[ChangePartition]:
        state, reader = self.view.state(cursor), self._from(start)
        reader.check_range(cursor, start, end, state, checked=self._checked())
        return reader.partitions(cursor, start, end, state)

    def _from(self, start: Offset) -> RangeReader:
        return self.reader.where(self.reader.view.between_times(start.since, None))

    def _check_pattern(self, cursor: Cursor) -> None:
        if not self._checked():
            self.options.chosen.check(cursor)

    def _check_start(self, cursor: Cursor, start: Offset, state: DatabaseState) -> None:
        """Compare the mark once per connection: an idle stream comes here ten times per second."""
        if start not in self._checked():
            self.reader.check(cursor, start, state)
            self._remember(start)
        self.reader.check_state(start, state)

    def _checked(self) -> tuple[Offset, ...]:
        number, positions = self.checked
        return positions if number == self.driver.opened else ()

    def _remember(self, position: Offset) -> None:
        self.checked = (self.driver.opened, (*self._checked()[-1:], position))
