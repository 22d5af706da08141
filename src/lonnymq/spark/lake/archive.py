"""History and dead letters into the lake, each row once.

The lake is its own checkpoint: a commit holds rows and the transaction that they go up to. What stopped at
any point goes on from there; what was written but not committed is not in the table.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg

from lonnymq.adapters.driver_errors import refuse
from lonnymq.adapters.psycopg import run
from lonnymq.commands import HistoryFollow, HistoryUnfollow
from lonnymq.errors import LonnyMQError, NotPermitted, PositionUnknown
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.reader import Reading
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot
from lonnymq.spark.changes.source import FollowedSource
from lonnymq.spark.changes.view import Cursor, Followed, Present
from lonnymq.spark.connection import Connecting
from lonnymq.spark.dead_source import DeadSource
from lonnymq.spark.history_source import HistorySource
from lonnymq.spark.lake.delta_table import LakeTable, Position, absolute
from lonnymq.spark.unwrap_errors import plainly

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

ROWS_A_COMMIT = 1_000_000
COUNTED_AT_MOST = 100_000
NAME_MAX_BYTES = 255


@dataclass(frozen=True)
class Archivable:
    """What grows by transaction, and the column that says which day a row belongs to."""

    name: str
    source: type[FollowedSource]
    day_of: str


HISTORY = Archivable("history", HistorySource, "finished_at")
DEAD = Archivable("dead", DeadSource, "dead_at")
TABLES = {table.name: table for table in (HISTORY, DEAD)}


class HistoryNotKept(LonnyMQError):
    """The queue keeps no history."""


@dataclass
class Archived:
    """What one table of the lake has got."""

    table: str
    rows: int = 0
    commits: int = 0
    upto_xid: int = 0
    behind: int = 0
    """Rows that are there and must wait, because a transaction older than theirs is still open."""
    begins_at: str | None = None
    """When its first row finished, if the table is new and older rows were no longer kept."""


@dataclass
class Archiving:
    """Progress, told after each commit and when a table has been caught up with."""

    lake: str
    """By its full path."""
    tables: dict[str, Archived] = field(default_factory=dict)
    is_caught_up: bool = False


Told = Callable[[Archiving], None]


def _nobody(progress: Archiving) -> None:
    """Is told."""


def archive(
    spark: SparkSession,
    lake: str,
    options: Mapping[str, str],
    *,
    tables: Sequence[str] = tuple(TABLES),
    rows_a_commit: int = ROWS_A_COMMIT,
    follow: bool = True,
    every: float | None = None,
    stop: threading.Event | None = None,
    told: Told | None = None,
) -> Archiving:
    """All that is there now; with `every`, what comes, until `stop` is set.

    With `follow`, PostgreSQL keeps what is not in the lake yet, however old it is: that takes the admin role.
    """
    stop, told, lake = stop or threading.Event(), told or _nobody, absolute(lake)
    progress = Archiving(lake, {name: Archived(name) for name in tables})
    targets = [_Target(spark, lake, options, TABLES[name], progress.tables[name], follow) for name in tables]
    while True:
        progress.is_caught_up = False
        for target in targets:
            while not stop.is_set() and target.step(rows_a_commit):
                told(progress)
        progress.is_caught_up = not stop.is_set()
        told(progress)
        if every is None or stop.wait(every):
            return progress


@dataclass(frozen=True)
class _Stretch:
    """What the next commit brings: the transactions from one up to another."""

    lake: LakeTable
    table: DeltaTable
    start: Offset
    end: Offset


class _Target:
    def __init__(
        self,
        spark: SparkSession,
        lake: str,
        options: Mapping[str, str],
        kind: Archivable,
        archived: Archived,
        follow: bool,  # noqa: FBT001
    ) -> None:
        self.spark, self.kind, self.archived, self.follow = spark, kind, archived, follow
        self.options = dict(options)
        self.connecting = Connecting.of(self.options)
        self.followed = kind.source(self.options).followed(self.connecting.schema, is_with_content=True)
        self.reading = Reading(self.followed, self.connecting, min_partitions=1, fails_on_data_loss=True)
        self.uri = f"{lake}/{kind.name}"

    def step(self, rows_a_commit: int) -> bool:
        """One commit, if there is anything to commit. Returns whether there was."""
        try:
            with self.connecting.connect() as conn, conn.cursor() as cursor:
                Followed.prepare(cursor)
                stretch = self._next(conn, cursor, rows_a_commit)
        except psycopg.Error as error:
            refuse(error)
        if stretch is None:
            return False
        rows = (
            self.spark.read.format(self.kind.source.name())
            .options(**self.options)
            .option("startingOffsets", json.dumps(stretch.start.kept()))
            .option("endingOffsets", json.dumps(stretch.end.kept()))
            .load()
        )
        upto = Position(stretch.end.snapshot.xmax, stretch.end.mark)
        with plainly():
            self.archived.rows += stretch.lake.append(stretch.table, rows, self.kind.day_of, upto)
        self.archived.commits += 1
        self.archived.upto_xid = upto.xid
        return True

    def _next(self, conn: psycopg.Connection[Any], cursor: Cursor, rows_a_commit: int) -> _Stretch | None:
        present = self.followed.present(cursor)
        if self.kind is HISTORY and not present.is_kept:
            raise HistoryNotKept("the queue keeps no history", "run `lonnymq queue set --history` first")
        source = f"cluster {present.system}, schema {self.connecting.schema}, {self.followed.view}"
        lake = LakeTable(self.uri, source)
        table = lake.open(self.followed.columns.schema())
        position = lake.position(table)
        start = Offset(EARLIEST, present.system)
        if position is not None:
            start = Offset(Snapshot.of(position.xid), present.system, position.mark)
            self.archived.upto_xid = position.xid
        self._check(cursor, start, present)
        end = self._end(cursor, start, Snapshot.of(present.snapshot.xmin), rows_a_commit)
        # Before anything is read: from now on nothing goes that the lake has not got.
        self._follow(conn, Snapshot.of(present.snapshot.xmin) if end is None else start.snapshot)
        if end is None:
            self.archived.behind = self._behind(cursor, present.snapshot)
            return None
        if position is None and present.trimmed and self.followed.is_trimmed:
            self.archived.begins_at = _iso(self.followed.oldest_at(cursor))
        return _Stretch(lake, table, start, end)

    def _check(self, cursor: Cursor, start: Offset, present: Present) -> None:
        try:
            self.reading.check(cursor, start, present)
        except PositionUnknown as error:
            hint = (
                "archive into another folder, or restore the table to a version from before that"
                " (docs/operations.md)"
            )
            if self.kind is HISTORY:
                hint += f"; if you give this folder up, history_unfollow({self._follower()!r})"
            raise PositionUnknown(
                f"{self.uri} goes up to transaction {start.snapshot.xmax}: {error.message}", hint
            ) from error
        self.reading.check_kept(start, present)

    def _end(self, cursor: Cursor, start: Offset, safe: Snapshot, most: int) -> Offset | None:
        """How far the next commit goes: to `safe`, below which nobody is open, or less if that is many rows.
        Rows of one transaction stay together.
        """
        if not self.followed.has_rows(cursor, start.snapshot, safe):
            return None
        return self.reading.end(cursor, start, safe, most)

    def _behind(self, cursor: Cursor, present: Snapshot) -> int:
        where = self.followed.from_to(present.xmin, present.xmax, present)
        return self.followed.count(cursor, where, COUNTED_AT_MOST)

    def _follow(self, conn: psycopg.Connection[Any], has: Snapshot) -> None:
        if not self.follow or self.kind is not HISTORY:
            return
        name = self._follower()
        try:
            if has == EARLIEST:  # a new table, perhaps in the place of one that was deleted and had more
                run(conn, self.connecting.schema, HistoryUnfollow(name))
            run(conn, self.connecting.schema, HistoryFollow(name, str(has)))
        except NotPermitted as error:
            raise NotPermitted(
                "this login may not keep the history from being dropped before it is in the lake",
                "log in as an admin of the queue, or archive with follow=False (--no-follow)",
            ) from error

    def _follower(self) -> str:
        """By the table's full path; of a long one, the end and what tells it from others."""
        name = f"archive {self.uri}".encode()
        if len(name) > NAME_MAX_BYTES:
            digest = hashlib.blake2b(name, digest_size=8).hexdigest()
            name = f"archive {digest} ...".encode() + name[-200:]
        return name.decode(errors="ignore")


def _iso(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
