"""What can be followed: a view whose rows carry the transaction that wrote them, and how it is asked.

Every query goes by the index of transactions, from the position on: what was read before costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lonnymq.errors import PositionUnknown
from lonnymq.spark.changes.snapshots import Snapshot
from lonnymq.spark.columns import Columns
from lonnymq.statement import identifier

# A plan made from old statistics must not read through the whole history; nor is one worth compiling.
SETTINGS = "SELECT set_config('enable_seqscan', 'off', FALSE), set_config('jit', 'off', FALSE)"
BUCKETS = 1024


class Cursor(Protocol):
    """Of psycopg or of ADBC."""

    def execute(self, query: str, /) -> object: ...
    def fetchall(self) -> Sequence[Sequence[Any]]: ...


@dataclass(frozen=True)
class Present:
    """Where the database stands."""

    snapshot: Snapshot
    system: int
    trimmed: int
    is_kept: bool
    """Whether the queue keeps a history."""


@dataclass(frozen=True)
class Bucket:
    """Rows of transactions from `first` to `last`, both among them."""

    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class Followed:
    schema: str
    view: str
    table: str
    columns: Columns
    texts: tuple[str, ...]
    times: tuple[str, ...]
    is_trimmed: bool
    """Whether old rows are dropped; else rows go because somebody did something about them."""
    conditions: tuple[str, ...] = field(default=())

    def present(self, cursor: Cursor) -> Present:
        """In one statement, so that what ends meanwhile is not taken for a transaction of another cluster."""
        [(snapshot, system, trimmed, is_kept, is_foreign)] = _rows(
            cursor,
            f"""SELECT b.snapshot, b.system_id, b.trimmed_xid, b.is_kept, EXISTS (
                SELECT FROM {self._relation()} WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()))
            FROM {identifier(self.schema)}.history_bounds() b""",  # noqa: S608 # the name is quoted
        )
        if is_foreign:
            raise PositionUnknown(
                f"{self.view} has rows of transactions that this cluster has not run yet: of a restored dump",
                f"stamp them anew: UPDATE {identifier(self.schema)}.{self.table} SET xid = DEFAULT"  # noqa: S608
                " WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())",
            )
        return Present(Snapshot.parse(snapshot), system, trimmed, is_kept)

    def mark(self, cursor: Cursor, snapshot: Snapshot) -> int | None:
        """What tells the past that the snapshot sees from any other; None: it is no longer kept."""
        is_dead = self.table == "dead"
        asked = f"SELECT {identifier(self.schema)}.history_mark('{snapshot}', {is_dead})"
        [(mark,)] = _rows(cursor, asked)
        return None if mark is None else int(mark)

    def last(self, cursor: Cursor, start: Snapshot, end: Snapshot) -> int | None:
        """The highest transaction among the rows that `end` sees and `start` did not."""
        found = [
            self._outermost(cursor, "CAST(xid AS TEXT)", where, "DESC") for where in self.between(start, end)
        ]
        return max((int(xid) for xid in found if xid is not None), default=None)

    def oldest_at(self, cursor: Cursor) -> int | None:
        """When the oldest row ended, as Unix milliseconds."""
        at = self._outermost(cursor, self.times[0], "TRUE", "ASC")
        return None if at is None else int(at)

    @staticmethod
    def prepare(cursor: Cursor) -> None:
        _rows(cursor, SETTINGS)

    def has_rows(self, cursor: Cursor, start: Snapshot, end: Snapshot) -> bool:
        found = " OR ".join(
            f"EXISTS (SELECT FROM {self._relation()} WHERE {where})" for where in self.between(start, end)
        )
        [(is_any,)] = _rows(cursor, f"SELECT {found or 'FALSE'}")
        return bool(is_any)

    def between(self, start: Snapshot, end: Snapshot) -> list[str]:
        """Conditions that each select some of the rows that `end` sees and `start` did not."""
        found = [self.among(start.ended(end), end)] if start.ended(end) else []
        return [*found, self.from_to(start.xmax, end.xmax, end)] if start.xmax < end.xmax else found

    def among(self, xids: Iterable[int], end: Snapshot) -> str:
        return self._where(f"xid = ANY (CAST('{_array(xids)}' AS XID8[]))", end)

    def from_to(self, first: int, behind: int, end: Snapshot) -> str:
        return self._where(f"xid >= CAST('{first}' AS XID8) AND xid < CAST('{behind}' AS XID8)", end)

    def count(self, cursor: Cursor, where: str, at_most: int) -> int:
        [(rows,)] = _rows(
            cursor,
            f"SELECT COUNT(*) FROM (SELECT FROM {self._relation()} WHERE {where} LIMIT {at_most}) x",  # noqa: S608
        )
        return int(rows)

    def counts(self, cursor: Cursor, where: str, grouped_by: str = "xid") -> list[Bucket]:
        """How many rows there are, of each transaction or of several that are neighbours."""
        found = _rows(
            cursor,
            f"""SELECT CAST(MIN(xid) AS TEXT), CAST(MAX(xid) AS TEXT), COUNT(*)
            FROM {self._relation()} WHERE {where} GROUP BY {grouped_by} ORDER BY MIN(xid)""",  # noqa: S608
        )
        return [Bucket(int(first), int(last), rows) for first, last, rows in found]

    def query(self, where: str) -> str:
        return f"SELECT {self.columns.asked()} FROM {self._relation()} WHERE {where}"  # noqa: S608

    def spread(self, cursor: Cursor, first: int, behind: int, end: Snapshot) -> list[Bucket]:
        """The rows from a transaction to another, roughly."""
        bounds = range(first, behind, max(1, -(-(behind - first) // BUCKETS)))
        bucket = f"width_bucket(xid, CAST('{_array(bounds)}' AS XID8[]))"
        return self.counts(cursor, self.from_to(first, behind, end), bucket)

    def divided(self, cursor: Cursor, buckets: Iterable[Bucket], end: Snapshot, share: int) -> list[Bucket]:
        """The same rows, in buckets that have no more than `share` of them, or are of one transaction."""
        found: list[Bucket] = []
        for bucket in buckets:
            if bucket.rows > share and bucket.first < bucket.last:
                finer = self.spread(cursor, bucket.first, bucket.last + 1, end)
                found += self.divided(cursor, finer, end, share)
            else:
                found.append(bucket)
        return found

    def _outermost(self, cursor: Cursor, column: str, where: str, order: str) -> str | int | None:
        found = _rows(
            cursor,
            f"SELECT {column} FROM {self._relation()} WHERE {where} ORDER BY xid {order} LIMIT 1",  # noqa: S608
        )
        return found[0][0] if found else None

    def _where(self, xids: str, end: Snapshot) -> str:
        return " AND ".join([xids, f"pg_visible_in_snapshot(xid, '{end}')", *self.conditions])

    def _relation(self) -> str:
        return f"{identifier(self.schema)}.{self.view}"


def _array(xids: Iterable[int]) -> str:
    return "{" + ",".join(map(str, xids)) + "}"


def _rows(cursor: Cursor, query: str) -> Sequence[Sequence[Any]]:
    cursor.execute(query)
    return cursor.fetchall()
