"""How rows between two positions are found, divided and read: each once, in whatever order writers commit.

The driver divides. An executor asks for the rows of some transactions, and makes sure that its server has all
that the end of the batch sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lonnymq.errors import LonnyMQError, PositionUnknown
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot
from lonnymq.spark.changes.view import Bucket, Cursor, Followed, Present
from lonnymq.spark.connection import Connecting

ROWS_A_PARTITION = 200_000
BATCH_BYTES = 4 * 1024 * 1024
FIRST_STEP = 1024
START_ANEW = "start anew: with a new checkpoint, and with startingOffsets where it should begin"


class RowsLost(LonnyMQError):
    """Rows may have been dropped before they were read."""


@dataclass(frozen=True)
class Part(InputPartition):
    """Rows of a range of transactions, or of some, that a snapshot sees."""

    wheres: tuple[str, ...]
    oldest: int
    end: Offset
    trimmed: int


@dataclass(frozen=True)
class Reading:
    """How rows between two positions are found and read: on the driver and on executors."""

    followed: Followed
    connecting: Connecting
    min_partitions: int
    fails_on_data_loss: bool

    def check(self, cursor: Cursor, position: Offset, present: Present) -> None:
        """Raise it where the position is not one of this database's past."""
        self.check_present(position, present)
        if position.mark is None:
            return
        found = self.followed.mark(cursor, position.snapshot)
        if found is not None and found != position.mark:
            raise PositionUnknown(
                f"rows that were read up to {position.snapshot} are no longer in the database: it was set"
                " back by a failover to a standby that lagged, or by a backup or copy that took its place",
                START_ANEW,
            )

    def check_present(self, position: Offset, present: Present) -> None:
        """As far as it can be told without asking the database again."""
        if position.system != present.system:
            raise PositionUnknown(
                f"the position is of another cluster: its system identifier is {position.system}, here it is"
                f" {present.system}",
                START_ANEW,
            )
        if not position.snapshot.is_within(present.snapshot):
            raise PositionUnknown(
                f"the position {position.snapshot} is ahead of the database, which is at {present.snapshot}",
                f"if it was restored to an earlier time, {START_ANEW}; a standby may only be late",
            )

    def check_range(self, cursor: Cursor, start: Offset, end: Offset, present: Present) -> None:
        for position in (start, end):
            self.check(cursor, position, present)
        if not start.snapshot.is_within(end.snapshot):
            raise PositionUnknown(
                f"the end {end.snapshot} does not follow from the start {start.snapshot}",
                "positions only go forward",
            )
        self.check_kept(start, present)

    def check_kept(self, start: Offset, present: Present) -> None:
        """What begins at the beginning takes what there is."""
        if not self.fails_on_loss() or start.snapshot == EARLIEST:
            return
        oldest = min((start.snapshot.xmax, *start.snapshot.ended(present.snapshot)))
        if oldest <= present.trimmed:
            raise _lost(f"from transaction {oldest} on, and rows up to {present.trimmed} are no longer kept")

    def fails_on_loss(self) -> bool:
        return self.followed.is_trimmed and self.fails_on_data_loss

    def marked(self, cursor: Cursor, snapshot: Snapshot, system: int) -> Offset:
        return Offset(snapshot, system, self.followed.mark(cursor, snapshot))

    def end(self, cursor: Cursor, start: Offset, target: Snapshot, limit: int | None) -> Offset:
        """As far as `target`, or less far where that is over `limit` rows. Ends right behind the last row, so
        that it sees no transaction whose id a crash would give out again. There must be rows.
        """
        end = target if limit is None else self.limited(cursor, start.snapshot, target, limit)
        last = self.followed.last(cursor, start.snapshot, end)
        if last is not None:
            end = start.snapshot.until(end, last + 1)
        return self.marked(cursor, end, start.system)

    def limited(self, cursor: Cursor, start: Snapshot, end: Snapshot, limit: int) -> Snapshot:
        """As far as `end`, or less far where that is over `limit` rows; one transaction at least."""
        rows = 0
        for one in self._ended(cursor, start, end):
            if rows and rows + one.rows > limit:
                return start.until(end, one.first)
            rows += one.rows
        behind, step, grows = start.xmax, FIRST_STEP, True
        while behind < end.xmax and rows < limit:
            ahead = min(behind + step, end.xmax)
            more = self.followed.count(cursor, self.followed.from_to(behind, ahead, end), limit - rows + 1)
            if rows + more <= limit:
                behind, rows = ahead, rows + more
                step = step * 2 if grows else max(1, step // 2)
            elif ahead - behind > 1:
                step, grows = max(1, (ahead - behind) // 2), False
            else:
                return start.until(end, behind if rows else ahead)
        return start.until(end, behind)

    def parts(self, cursor: Cursor, start: Offset, end: Offset, present: Present) -> list[Part]:
        """The same for the same positions. None where there are no rows."""
        old, new = start.snapshot, end.snapshot
        ended = self._ended(cursor, old, new)
        buckets = self.followed.spread(cursor, old.xmax, new.xmax, new) if old.xmax < new.xmax else []
        rows = sum(bucket.rows for bucket in [*ended, *buckets])
        share = max(1, min(ROWS_A_PARTITION, rows // self.min_partitions))
        buckets = self.followed.divided(cursor, buckets, new, share)
        wheres = [self.followed.among([one.first for one in some], new) for some in _shared(ended, share)]
        oldest = [some[0].first for some in _shared(ended, share)]
        for some in _shared(buckets, share):
            wheres.append(self.followed.from_to(some[0].first, some[-1].last + 1, new))
            oldest.append(some[0].first)
        return [
            Part((where,), first, end, present.trimmed) for where, first in zip(wheres, oldest, strict=True)
        ]

    def rows(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor. Spark makes up a part where there are none."""
        if not isinstance(part, Part):
            return
        from adbc_driver_manager import Error

        try:
            yield from self._batches(part)
        except Error as error:
            self.connecting.refuse(error, "the queue's views")

    def _batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        from adbc_driver_postgresql import StatementOptions

        hint = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        with self.connecting.adbc() as connection, connection.cursor(adbc_stmt_kwargs=hint) as cursor:
            self.followed.prepare(cursor)
            self.check(cursor, part.end, self.followed.present(cursor))
            for where in part.wheres:
                cursor.execute(self.followed.query(where))
                with cursor.fetch_record_batch() as batches:
                    for batch in batches:
                        if batch.num_rows:
                            yield self.followed.columns.batch(batch)
            trimmed = self.followed.present(cursor).trimmed
            if self.fails_on_loss() and part.trimmed < trimmed >= part.oldest:
                raise _lost(
                    f"from transaction {part.oldest} on, and rows up to {trimmed} were dropped meanwhile"
                )

    def _ended(self, cursor: Cursor, start: Snapshot, end: Snapshot) -> list[Bucket]:
        """The rows of transactions that were open at the start, a bucket each."""
        xids = start.ended(end)
        return self.followed.counts(cursor, self.followed.among(xids, end)) if xids else []


def _shared(buckets: Sequence[Bucket], share: int) -> Iterator[list[Bucket]]:
    """Neighbours together, as long as they have no more than `share` rows."""
    taken: list[Bucket] = []
    for bucket in buckets:
        if taken and sum(one.rows for one in taken) + bucket.rows > share:
            yield taken
            taken = []
        taken.append(bucket)
    if taken:
        yield taken


def _lost(what: str) -> RowsLost:
    return RowsLost(
        f"rows may be lost: this reads {what}",
        "keep the history longer or have it followed (history_follow); failOnDataLoss=false goes on without",
    )
