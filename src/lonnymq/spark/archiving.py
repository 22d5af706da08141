"""History and dead letters into the lake, each row once.

The lake is its own checkpoint: a commit holds rows and the transaction that they go up to. What stopped at
any point goes on from there; what was written but not committed is not in the table.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psycopg import sql

from lonnymq.adapters.psycopg import run
from lonnymq.commands import HistoryBounds, HistoryFollow
from lonnymq.errors import LonnyMQError, NotPermitted
from lonnymq.spark import columns
from lonnymq.spark.columns import Columns
from lonnymq.spark.connecting import Connecting
from lonnymq.spark.lake import LakeTable, Position
from lonnymq.spark.snapshots import Snapshot

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import SparkSession

ROWS_A_COMMIT = 1_000_000
COUNTED_AT_MOST = 100_000
FIRST_XID = 3  # PostgreSQL's first transaction that is not one of its own


@dataclass(frozen=True)
class Archivable:
    """A view that grows by transaction, and the column that says which day a row belongs to."""

    name: str
    format: str
    view: str
    columns: Columns
    day_of: str


HISTORY = Archivable("history", "lonnymq_history", "history", columns.HISTORY, "finished_at")
DEAD = Archivable("dead", "lonnymq_dead", "dead_letters", columns.DEAD, "dead_at")
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
        self.uri = f"{lake.rstrip('/')}/{kind.name}"

    def step(self, rows_a_commit: int) -> bool:
        """One commit, if there is anything to commit. Returns whether there was."""
        with self.connecting.connect() as conn:
            bounds = run(conn, self.connecting.schema, HistoryBounds())
            if self.kind is HISTORY and not bounds.is_kept:
                raise HistoryNotKept(
                    "the queue keeps no history", "run `SELECT queue_set(p_history => TRUE)` first"
                )
            source = f"cluster {bounds.system_id}, schema {self.connecting.schema}, {self.kind.view}"
            lake = LakeTable(self.uri, source)
            table = lake.open(self.kind.columns.schema())
            start, safe = lake.position(table), Snapshot.parse(bounds.snapshot).xmin
            end = self._end(conn, start.xid, safe, rows_a_commit)
            self.archived.upto_xid = start.xid
            # Before anything is read: from now on nothing goes that the lake has not got.
            self._follow(conn, safe if end is None else start.xid)
            if end is None:
                self.archived.behind = self._behind(conn, safe)
                return False
        rows = (
            self.spark.read.format(self.kind.format)
            .options(**self.options)
            .option("startingOffsets", _offset(start.xid, bounds.system_id))
            .option("endingOffsets", _offset(end, bounds.system_id))
            .load()
        )
        self.archived.rows += lake.append(table, rows, self.kind.day_of, Position(end))
        self.archived.commits += 1
        self.archived.upto_xid = end
        return True

    def _end(self, conn: psycopg.Connection, start: int, safe: int, most: int) -> int | None:
        """How far the next commit goes: to `safe`, below which nobody is open, or less if that is many rows.
        Rows of one transaction stay together.
        """
        found = conn.execute(
            sql.SQL("""
                WITH new AS NOT MATERIALIZED (
                    SELECT xid FROM {view} WHERE xid >= %(start)s::TEXT::XID8 AND xid < %(safe)s::TEXT::XID8)
                SELECT (SELECT xid FROM new ORDER BY xid LIMIT 1)::TEXT::BIGINT,
                    (SELECT xid FROM new ORDER BY xid OFFSET %(most)s LIMIT 1)::TEXT::BIGINT
            """).format(view=self._view()),
            {"start": start, "safe": safe, "most": most},
        ).fetchone()
        first, beyond = found or (None, None)
        if first is None:
            return None
        return safe if beyond is None else max(beyond, first + 1)

    def _behind(self, conn: psycopg.Connection, safe: int) -> int:
        counted = sql.SQL("SELECT COUNT(*) FROM (SELECT FROM {} WHERE xid >= %s::TEXT::XID8 LIMIT %s) x")
        row = conn.execute(counted.format(self._view()), (safe, COUNTED_AT_MOST)).fetchone()
        return int(row[0]) if row else 0

    def _view(self) -> sql.Identifier:
        return sql.Identifier(self.connecting.schema, self.kind.view)

    def _follow(self, conn: psycopg.Connection, xid: int) -> None:
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
