"""Finds, splits and reads the rows between two positions, each row once.

The driver splits them into partitions by transaction. An executor reads the rows of one partition, after it
checked that its server has everything that the end of the batch sees.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lonnymq.errors import LonnyMQError, PositionUnknown
from lonnymq.spark.changes.change_view import Amount, ChangeView, Cursor, DatabaseState, XidRange
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot
from lonnymq.spark.connection import QueueAddress

ROWS_PER_PARTITION = 200_000
DEFAULT_PARTITIONS = 8
LEAST_ROWS = 50_000
"""Without `minPartitions`, a partition has at least this many rows: fewer are not worth a connection."""
BATCH_BYTES = 4 * 1024 * 1024
FIRST_STEP = 1024
START_AGAIN = "start again with a new checkpoint, and with startingOffsets where the stream should begin"


class RowsLost(LonnyMQError):
    """Rows may have been dropped before they were read."""


@dataclass(frozen=True)
class ChangePartition(InputPartition):
    """The rows of some transactions that the snapshot of `end` sees."""

    where: str
    oldest: int
    end: Offset
    trimmed: int
    rows: int
    """How many there were when the driver counted them."""
    incarnation: str
    """Of the database that the driver planned with."""


@dataclass(frozen=True)
class RangeReader:
    """Runs on the driver and on executors."""

    view: ChangeView
    address: QueueAddress
    min_partitions: int | None
    fails_on_data_loss: bool

    def check(self, cursor: Cursor, position: Offset, state: DatabaseState) -> None:
        """Raise PositionUnknown if the position does not belong to the past of this database."""
        self.check_state(position, state)
        if position.mark is None:
            return
        found = self.view.mark(cursor, position.snapshot)
        if found is not None and found != position.mark:
            raise PositionUnknown(
                f"rows that were read up to {position.snapshot} are no longer in the database: it went back"
                " to an earlier time, by a failover to a standby that lagged, or by a backup or a copy",
                START_AGAIN,
            )

    def check_state(self, position: Offset, state: DatabaseState) -> None:
        """The part of `check` that needs no query."""
        if position.system != state.system:
            raise PositionUnknown(
                f"the position is of another cluster, with the system identifier {position.system}; this one"
                f" has {state.system}",
                START_AGAIN,
            )
        if not position.snapshot.is_within(state.snapshot):
            raise PositionUnknown(
                f"the position {position.snapshot} is ahead of the database, which is at {state.snapshot}",
                f"if it was restored to an earlier time, {START_AGAIN}; if it is a standby, it may only lag",
            )

    def check_range(
        self,
        cursor: Cursor,
        start: Offset,
        end: Offset,
        state: DatabaseState,
        *,
        checked: Container[Offset] = (),
    ) -> None:
        """Positions that were `checked` on this connection are not compared again, which may take long."""
        for position in (start, end):
            if position in checked:
                self.check_state(position, state)
            else:
                self.check(cursor, position, state)
        if not start.snapshot.is_within(end.snapshot):
            raise PositionUnknown(
                f"the end {end.snapshot} is not after the start {start.snapshot}",
                "the end must see everything that the start sees",
            )
        self.check_kept(start, state)

    def check_kept(self, start: Offset, state: DatabaseState) -> None:
        """Raise RowsLost if rows after the start may have been dropped. EARLIEST means: whatever is kept."""
        if not self.fails_on_loss() or start.snapshot == EARLIEST:
            return
        oldest = min((start.snapshot.xmax, *start.snapshot.committed_by(state.snapshot)))
        if oldest <= state.trimmed:
            raise _lost(f"transaction {oldest}, and rows up to {state.trimmed} are no longer kept")

    def fails_on_loss(self) -> bool:
        return self.view.is_trimmed and self.fails_on_data_loss

    def where(self, view: ChangeView) -> RangeReader:
        return replace(self, view=view)

    def marked(self, cursor: Cursor, snapshot: Snapshot, system: int) -> Offset:
        """The position of a snapshot, with its mark (see offsets.py)."""
        return Offset(snapshot, system, self.view.mark(cursor, snapshot))

    def marked_from(self, cursor: Cursor, start: Offset, snapshot: Snapshot) -> Offset:
        """The position of a later snapshot in the same stream."""
        return replace(start, snapshot=snapshot, mark=self.view.mark(cursor, snapshot))

    def end(
        self, cursor: Cursor, start: Offset, target: Snapshot, rows: int | None, size: int | None = None
    ) -> Offset:
        """The end of a batch: `target`, or earlier if that is more than so many rows or bytes. There must be
        rows.

        It ends right after the last row, so that it sees no transaction whose id could be used again after a
        crash. Rows that are left out by conditions count as read.
        """
        end = target
        if rows is not None or size is not None:
            end = self.limited(cursor, start.snapshot, target, rows, size)
        last = self.view.unfiltered().last(cursor, start.snapshot, end)
        if last is not None:
            end = start.snapshot.until(end, last + 1)
        return self.marked_from(cursor, start, end)

    def limited(
        self, cursor: Cursor, start: Snapshot, end: Snapshot, rows: int | None, size: int | None = None
    ) -> Snapshot:
        """`end`, or earlier if that is too many rows or bytes; but always at least one transaction."""

        def is_more(amount: Amount) -> bool:
            return (rows is not None and amount.rows > rows) or (size is not None and amount.size > size)

        sum_ = Amount()
        for one in self._newly_committed(cursor, start, end):
            more = Amount(one.rows)
            if size is not None:
                more = self.view.amount(cursor, self.view.among([one.first], end), None)
            if sum_.rows and is_more(sum_ + more):
                return start.until(end, one.first)
            sum_ += more
        behind, step, grows = start.xmax, FIRST_STEP, True
        while behind < end.xmax and not is_more(sum_ + Amount(1, 1)):
            ahead = min(behind + step, end.xmax)
            at_most = None if rows is None else rows - sum_.rows + 1
            more = self.view.amount(cursor, self.view.from_to(behind, ahead, end), at_most)
            if not is_more(sum_ + more):
                behind, sum_ = ahead, sum_ + more
                step = step * 2 if grows else max(1, step // 2)
            elif ahead - behind > 1:
                step, grows = max(1, (ahead - behind) // 2), False
            else:
                return start.until(end, behind if sum_.rows else ahead)
        return start.until(end, behind)

    def partitions(
        self, cursor: Cursor, start: Offset, end: Offset, state: DatabaseState
    ) -> list[ChangePartition]:
        """The partitions between two positions: always the same ones, and none if there are no rows."""
        old, new = start.snapshot, end.snapshot
        late = self._newly_committed(cursor, old, new)
        ranges = self.view.ranges(cursor, old.xmax, new.xmax, new) if old.xmax < new.xmax else []
        rows = sum(one.rows for one in [*late, *ranges])
        if self.min_partitions is None:
            most = min(ROWS_PER_PARTITION, max(LEAST_ROWS, rows // DEFAULT_PARTITIONS))
        else:
            most = max(1, min(ROWS_PER_PARTITION, rows // self.min_partitions))
        ranges = self.view.split(cursor, ranges, new, most)
        chosen = [(some, self.view.among([one.first for one in some], new)) for some in _grouped(late, most)]
        chosen += [
            (some, self.view.from_to(some[0].first, some[-1].last + 1, new))
            for some in _grouped(ranges, most)
        ]
        return [
            ChangePartition(
                where,
                some[0].first,
                end,
                state.trimmed,
                sum(one.rows for one in some),
                state.incarnation,
            )
            for some, where in chosen
        ]

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Runs on an executor. If there are no partitions, Spark passes its own."""
        if not isinstance(partition, ChangePartition):
            return
        from adbc_driver_manager import Error

        try:
            yield from self._batches(partition)
        except Error as error:
            self.address.refuse(error, "the queue's views")

    def _batches(self, partition: ChangePartition) -> Iterator[pa.RecordBatch]:
        from adbc_driver_postgresql import StatementOptions

        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        with self.address.adbc() as connection, connection.cursor(adbc_stmt_kwargs=hint) as cursor:
            self.view.prepare(cursor)
            self._check_server(cursor, partition)
            cursor.execute(self.view.query(partition.where))
            rows = 0
            with cursor.fetch_record_batch() as batches:
                for batch in batches:
                    rows += batch.num_rows
                    if batch.num_rows:
                        yield self.view.columns.batch(batch)
            trimmed = self.view.state(cursor).trimmed
            if self.fails_on_loss() and partition.trimmed < trimmed >= partition.oldest:
                raise _lost(
                    f"transaction {partition.oldest}, and rows up to {trimmed} were dropped meanwhile"
                )
            if self.fails_on_loss() and rows < partition.rows:
                raise _lost(
                    f"transaction {partition.oldest}, where {self.view.name} had {partition.rows:,} rows when"
                    f" the read was planned, and {partition.rows - rows:,} of them were removed meanwhile,"
                    " perhaps because a partition was dropped by hand"
                )

    def _check_server(self, cursor: Cursor, partition: ChangePartition) -> None:
        """Raise PositionUnknown if this server does not have everything that the end of the batch sees. The
        mark, which may take long, is needed only if it is not the server that the driver asked.
        """
        state = self.view.state(cursor)
        if state.incarnation == partition.incarnation:
            self.check_state(partition.end, state)
        else:
            self.check(cursor, partition.end, state)

    def _newly_committed(self, cursor: Cursor, start: Snapshot, end: Snapshot) -> list[XidRange]:
        """The rows of transactions that were open at the start, one range per transaction."""
        xids = start.committed_by(end)
        return self.view.counts(cursor, self.view.among(xids, end)) if xids else []


def _grouped(ranges: Sequence[XidRange], most: int) -> Iterator[list[XidRange]]:
    """Group neighbouring ranges, as long as a group has at most `most` rows."""
    group: list[XidRange] = []
    for one in ranges:
        if group and sum(member.rows for member in group) + one.rows > most:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _lost(what: str) -> RowsLost:
    return RowsLost(
        f"rows may be lost: this reads from {what}",
        "keep the history longer, or register a follower (history_follow); failOnDataLoss=false continues",
    )
