"""History and dead letters into the lake, each row once.

The lake is its own checkpoint: a commit holds rows and the transaction that they go up to. What stopped at
any point goes on from there; what was written but not committed is not in the table.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from lonnymq.adapters.psycopg import run
from lonnymq.adapters.refusals import refuse
from lonnymq.commands import HistoryBounds, HistoryFollow
from lonnymq.errors import LonnyMQError, NotPermitted, PositionUnknown
from lonnymq.spark.connecting import Connecting
from lonnymq.spark.dead_source import DeadSource
from lonnymq.spark.failures import plainly
from lonnymq.spark.following import FollowedSource
from lonnymq.spark.history_source import HistorySource
from lonnymq.spark.lake import LakeTable
from lonnymq.spark.reading import Reading
from lonnymq.spark.snapshots import Snapshot

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

ROWS_A_COMMIT = 1_000_000
COUNTED_AT_MOST = 100_000
FIRST_XID = 3  # PostgreSQL's first transaction that is not one of its own


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


@dataclass
class Archiving:
    """Progress, told after each commit and when a table has been caught up with."""

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
    stop, told = stop or threading.Event(), told or _nobody
    progress = Archiving({name: Archived(name) for name in tables})
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
    start: int
    end: int
    system: int


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
        self.uri = f"{lake.rstrip('/')}/{kind.name}"

    def step(self, rows_a_commit: int) -> bool:
        """One commit, if there is anything to commit. Returns whether there was."""
        try:
            with self.connecting.connect() as conn:
                stretch = self._next(conn, rows_a_commit)
        except psycopg.Error as error:
            refuse(error)
        if stretch is None:
            return False
        rows = (
            self.spark.read.format(self.kind.source.name())
            .options(**self.options)
            .option("startingOffsets", _offset(stretch.start, stretch.system))
            .option("endingOffsets", _offset(stretch.end, stretch.system))
            .load()
        )
        with plainly():
            self.archived.rows += stretch.lake.append(stretch.table, rows, self.kind.day_of, stretch.end)
        self.archived.commits += 1
        self.archived.upto_xid = stretch.end
        return True

    def _next(self, conn: psycopg.Connection[Any], rows_a_commit: int) -> _Stretch | None:
        bounds = run(conn, self.connecting.schema, HistoryBounds())
        if self.kind is HISTORY and not bounds.is_kept:
            raise HistoryNotKept("the queue keeps no history", "run `lonnymq queue set --history` first")
        source = f"cluster {bounds.system_id}, schema {self.connecting.schema}, {self.followed.view}"
        lake = LakeTable(self.uri, source)
        table = lake.open(self.followed.columns.schema())
        start, present = lake.position(table), Snapshot.parse(bounds.snapshot)
        if start > present.xmax:
            raise PositionUnknown(
                f"{self.uri} goes up to transaction {start}, and the database is at {present.xmax}",
                "it was restored to an earlier time: archive into another folder from now on",
            )
        end = self._end(conn, start, present.xmin, rows_a_commit)
        self.archived.upto_xid = start
        # Before anything is read: from now on nothing goes that the lake has not got.
        self._follow(conn, present.xmin if end is None else start)
        if end is None:
            self.archived.behind = self._behind(conn, present)
            return None
        return _Stretch(lake, table, start, end, bounds.system_id)

    def _end(self, conn: psycopg.Connection[Any], start: int, safe: int, most: int) -> int | None:
        """How far the next commit goes: to `safe`, below which nobody is open, or less if that is many rows.
        Rows of one transaction stay together.
        """
        position, latest = Snapshot.of(max(start, FIRST_XID)), Snapshot.of(safe)
        with conn.cursor() as cursor:
            if not self.followed.has_rows(cursor, position, latest):
                return None
            reading = Reading(self.followed, self.connecting, min_partitions=1, fails_on_data_loss=True)
            return reading.limited(cursor, position, latest, most).xmax

    def _behind(self, conn: psycopg.Connection[Any], present: Snapshot) -> int:
        with conn.cursor() as cursor:
            where = self.followed.from_to(present.xmin, present.xmax, present)
            return self.followed.count(cursor, where, COUNTED_AT_MOST)

    def _follow(self, conn: psycopg.Connection[Any], xid: int) -> None:
        if not self.follow or self.kind is not HISTORY:
            return
        try:
            run(conn, self.connecting.schema, HistoryFollow(f"archive {self.uri}"[:255], _snapshot(xid)))
        except NotPermitted as error:
            raise NotPermitted(
                "this login may not keep the history from being dropped before it is in the lake",
                "log in as an admin of the queue, or archive with follow=False (--no-follow)",
            ) from error


def _snapshot(xid: int) -> str:
    """All transactions below have ended, all others have not."""
    return f"{max(xid, FIRST_XID)}:{max(xid, FIRST_XID)}:"


def _offset(xid: int, system_id: int) -> str:
    return json.dumps({"snapshot": _snapshot(xid), "system": system_id})
