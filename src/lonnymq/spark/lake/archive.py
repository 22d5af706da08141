"""`archive`: copy history, dead letters and policies into the lake, each row once, and what waits now.

The lake is its own checkpoint: a commit has rows and the transaction that they go up to. A run that was
stopped at any point continues from there. Files that were written but not committed are not in the table.
"""

from __future__ import annotations

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
from lonnymq.errors import InvalidArgument, LonnyMQError, NotPermitted, PositionUnknown
from lonnymq.spark.changes.change_source import ChangeSource
from lonnymq.spark.changes.change_view import ChangeView, Cursor, DatabaseState
from lonnymq.spark.changes.dead_source import DeadSource
from lonnymq.spark.changes.history_source import HistorySource
from lonnymq.spark.changes.offsets import Offset
from lonnymq.spark.changes.policy_source import PolicySource
from lonnymq.spark.changes.range_reader import RangeReader
from lonnymq.spark.changes.snapshots import EARLIEST, Snapshot
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.lake.find_lake import CatalogOption, open_lake
from lonnymq.spark.lake.identity import follower, former_follower, settle_identity
from lonnymq.spark.lake.lake_table import Lake, LakeTable, Position, TableOptions
from lonnymq.spark.lake.waiting_snapshot import WAITING, WaitingSnapshots
from lonnymq.spark.unwrap_errors import unwrap_spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_COMMIT = 1_000_000
COUNTED_AT_MOST = 100_000


@dataclass(frozen=True)
class ArchiveSource:
    """A source that can be archived. Its column `day_of` decides to which day a row belongs."""

    name: str
    format: type[ChangeSource]
    day_of: str
    follows: bool = True
    """Whether PostgreSQL keeps its rows until they are in the lake."""
    options: Mapping[str, str] = field(default_factory=dict)


EXACT_HEADERS = {"headersFormat": "json"}
HISTORY = ArchiveSource("history", HistorySource, "finished_at", options=EXACT_HEADERS)
DEAD = ArchiveSource("dead", DeadSource, "dead_at", follows=False, options=EXACT_HEADERS)
POLICIES = ArchiveSource("policies", PolicySource, "at")
SOURCES = {table.name: table for table in (HISTORY, DEAD, POLICIES)}
TABLES = (*SOURCES, WAITING)


class HistoryNotKept(LonnyMQError):
    """The queue does not keep a history."""


@dataclass
class ArchivedTable:
    """What a run has added to one table of the lake. Of `waiting`, `rows` is how many messages wait now."""

    table: str
    rows: int = 0
    commits: int = 0
    upto_xid: int = 0
    behind: int = 0
    """Rows that cannot be archived yet, because a transaction older than theirs is still open."""
    follower: str = ""
    """The name under which PostgreSQL keeps rows for this table."""
    begins_at: str | None = None
    """When the first row finished, if the table is new and older rows were no longer kept."""


@dataclass
class ArchiveProgress:
    """The state of a run, after each commit and whenever all tables are up to date."""

    lake: str
    """The full path."""
    tables: dict[str, ArchivedTable] = field(default_factory=dict)
    is_caught_up: bool = False


def _ignore(progress: ArchiveProgress) -> None:
    """The default of `on_progress`."""


def archive(
    spark: SparkSession,
    lake: str,
    options: Mapping[str, str],
    *,
    tables: Sequence[str] = TABLES,
    rows_per_commit: int = ROWS_PER_COMMIT,
    table_format: str | None = None,
    catalog: CatalogOption = None,
    follow: bool = True,
    every: float | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[ArchiveProgress], None] = _ignore,
) -> ArchiveProgress:
    """Copy all rows that are there now into the lake: history, dead letters and policies, and at the end a
    snapshot of what waits.

    With `every`, look for new rows again after that many seconds, until `stop` is set. With `follow`,
    PostgreSQL keeps rows that are not in the lake yet, however old they are; that needs the admin role.

    A new lake gets the `table_format`: "delta", the default, or "iceberg". Later runs find it. `catalog` is
    for Iceberg: its name in pyiceberg's configuration, or its properties; by default it is in the lake.
    """
    if unknown := set(tables) - set(TABLES):
        raise InvalidArgument(
            f"the lake has no table {' or '.join(sorted(unknown))}", f"the tables are {', '.join(TABLES)}"
        )
    with open_lake(lake, table_format, catalog, must_exist=False) as found:
        progress = ArchiveProgress(found.path, {name: ArchivedTable(name) for name in tables})
        archivers = [
            _TableArchiver(spark, found, options, SOURCES[name], progress.tables[name], follow)
            for name in tables
            if name in SOURCES
        ]
        waiting = WaitingSnapshots(spark, found, options) if WAITING in tables else None
        stop = stop or threading.Event()
        return _run(archivers, waiting, progress, rows_per_commit, every, stop, on_progress)


def _run(
    archivers: Sequence[_TableArchiver],
    waiting: WaitingSnapshots | None,
    progress: ArchiveProgress,
    rows_per_commit: int,
    every: float | None,
    stop: threading.Event,
    on_progress: Callable[[ArchiveProgress], None],
) -> ArchiveProgress:
    while True:
        progress.is_caught_up = False
        for archiver in archivers:
            while not stop.is_set() and archiver.step(rows_per_commit):
                on_progress(progress)
        if waiting is not None and not stop.is_set() and (rows := waiting.take()) is not None:
            progress.tables[WAITING].rows = rows
            progress.tables[WAITING].commits += 1
        progress.is_caught_up = not stop.is_set()
        on_progress(progress)
        if every is None or stop.wait(every):
            return progress


@dataclass(frozen=True)
class _NextCommit:
    """The transactions that the next commit adds."""

    table: LakeTable
    start: Offset
    end: Offset


class _TableArchiver:
    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        options: Mapping[str, str],
        source: ArchiveSource,
        archived: ArchivedTable,
        follow: bool,  # noqa: FBT001
    ) -> None:
        self.spark, self.source, self.archived, self.follow = spark, source, archived, follow
        self.options = {**options, **source.options}
        self.address = QueueAddress.of(self.options)
        self.view = source.format(self.options).view()
        self.reader = RangeReader(self.view, self.address, min_partitions=1, fails_on_data_loss=True)
        self.lake, self.uri = lake, f"{lake.path}/{source.name}"

    def step(self, rows_per_commit: int) -> bool:
        """Commit once, if there is anything to commit. Returns whether there was."""
        try:
            with self.address.connect() as conn, conn.cursor() as cursor:
                ChangeView.prepare(cursor)
                commit = self._next(conn, cursor, rows_per_commit)
        except psycopg.Error as error:
            refuse(error)
        if commit is None:
            return False
        rows = (
            self.spark.read.format(self.source.format.name())
            .options(**self.options)
            .option("startingOffsets", json.dumps(commit.start.as_json()))
            .option("endingOffsets", json.dumps(commit.end.as_json()))
            .load()
        )
        upto = Position(commit.end.snapshot.xmax, commit.end.mark)
        with unwrap_spark_errors():
            written = commit.table.write(rows)
        commit.table.commit(written, upto)
        self.archived.rows += sum(file.rows for file in written)
        self.archived.commits += 1
        self.archived.upto_xid = upto.xid
        return True

    def _next(
        self, conn: psycopg.Connection[Any], cursor: Cursor, rows_per_commit: int
    ) -> _NextCommit | None:
        state = self.view.state(cursor)
        if self.source is HISTORY and not state.keeps_history:
            raise HistoryNotKept(
                "the queue does not keep a history", "run `lonnymq queue set --history` first"
            )
        table = self._open(state)
        position = table.position()
        start = Offset(EARLIEST, state.system)
        if position is not None:
            start = Offset(Snapshot.of(position.xid), state.system, position.mark)
            self.archived.upto_xid = position.xid
        self._check(cursor, start, state)
        end = self._end(cursor, start, Snapshot.of(state.snapshot.xmin), rows_per_commit)
        # Before anything is read, so that PostgreSQL drops nothing that is not in the lake yet.
        self._follow(conn, Snapshot.of(state.snapshot.xmin) if end is None else start.snapshot)
        if end is None:
            self.archived.behind = self._behind(cursor, state.snapshot)
            return None
        if position is None and state.trimmed and self.view.is_trimmed:
            self.archived.begins_at = _iso(self.view.oldest_at(cursor))
        return _NextCommit(table, start, end)

    def _open(self, state: DatabaseState) -> LakeTable:
        source = f"cluster {state.system}, schema {self.address.schema}, {self.view.name}"
        options = TableOptions(self.uri, source, self.view.columns.schema(), self.source.day_of)
        table = self.lake.open(options)
        self.archived.follower = follower(self.source.name, settle_identity(table))
        return table

    def _check(self, cursor: Cursor, start: Offset, state: DatabaseState) -> None:
        try:
            self.reader.check(cursor, start, state)
        except PositionUnknown as error:
            hint = (
                "archive into another folder, or restore the table to a version from before that time"
                " (docs/operations.md)"
            )
            if self.source.follows:
                hint += f"; if you abandon this folder, call history_unfollow({self.archived.follower!r})"
            raise PositionUnknown(
                f"{self.uri} goes up to transaction {start.snapshot.xmax}: {error.message}", hint
            ) from error
        self.reader.check_kept(start, state)

    def _end(self, cursor: Cursor, start: Offset, safe: Snapshot, most: int) -> Offset | None:
        """Where the next commit ends: at `safe`, below which no transaction is open, or earlier if that is
        more than `most` rows. Rows of one transaction stay together.
        """
        if not self.view.has_rows(cursor, start.snapshot, safe):
            return None
        return self.reader.end(cursor, start, safe, most)

    def _behind(self, cursor: Cursor, state: Snapshot) -> int:
        where = self.view.from_to(state.xmin, state.xmax, state)
        return self.view.count(cursor, where, COUNTED_AT_MOST)

    def _follow(self, conn: psycopg.Connection[Any], archived: Snapshot) -> None:
        if not self.follow or not self.source.follows:
            return
        try:
            run(conn, self.address.schema, HistoryFollow(self.archived.follower, str(archived)))
            run(conn, self.address.schema, HistoryUnfollow(former_follower(self.uri)))
        except NotPermitted as error:
            raise NotPermitted(
                "this login may not register a follower, which keeps rows until they are in the lake",
                "log in as an admin of the queue, or archive with follow=False (--no-follow)",
            ) from error


def _iso(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
