"""A view whose rows carry the transaction that wrote them, and the queries on it.

Every query uses the index on transactions, starting at the position: rows that were read before cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from psycopg.sql import Literal

from lonnymq.errors import PositionUnknown
from lonnymq.spark.changes.snapshots import Snapshot
from lonnymq.spark.columns import Columns
from lonnymq.statement import identifier

# With old statistics the planner might scan the whole history. These queries are too short for the JIT.
PLANNER_SETTINGS = "SELECT set_config('enable_seqscan', 'off', FALSE), set_config('jit', 'off', FALSE)"
MAX_RANGES = 4096
INCARNATION = """concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
    (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()), CAST(to_regclass({}) AS OID))"""


class Cursor(Protocol):
    """A cursor of psycopg or of ADBC."""

    def execute(self, query: str, /) -> object: ...
    def fetchall(self) -> Sequence[Sequence[Any]]: ...


@dataclass(frozen=True)
class DatabaseState:
    """The database at the moment of a query."""

    snapshot: Snapshot
    system: int
    trimmed: int
    """Rows of this transaction and of earlier ones may have been dropped."""
    keeps_history: bool
    incarnation: str
    """The running server, database and view. While it is the same, the database has not gone back in time."""


@dataclass(frozen=True)
class XidRange:
    """How many rows the transactions from `first` to `last` have, both included."""

    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class Amount:
    rows: int = 0
    size: int = 0
    """In bytes of content."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.rows + other.rows, self.size + other.size)


@dataclass(frozen=True)
class ChangeView:
    schema: str
    name: str
    table: str
    columns: Columns
    texts: tuple[str, ...]
    times: tuple[str, ...]
    trimmed: str | None = "trimmed_xid"
    """The column of history_bounds() that says up to which transaction rows were dropped by age. None: they
    are not. Dead letters leave only when they are retried or discarded.
    """
    marked_by: str = "history_mark('{}')"
    """The call that returns the mark of a snapshot."""
    size: str | None = None
    """The number of bytes of a row's content. None: rows have no content."""
    conditions: tuple[str, ...] = field(default=())

    @property
    def is_trimmed(self) -> bool:
        return self.trimmed is not None

    def where(self, conditions: Iterable[str]) -> ChangeView:
        return replace(self, conditions=(*self.conditions, *conditions))

    def between_times(self, since: int | None, until: int | None) -> ChangeView:
        """Only the rows from `since` to before `until`."""
        at = self.times[0]
        found = [f"{at} >= {since}"] if since is not None else []
        return self.where([*found, f"{at} < {until}"] if until is not None else found)

    def unfiltered(self) -> ChangeView:
        return replace(self, conditions=())

    def state(self, cursor: Cursor) -> DatabaseState:
        """In one statement: a commit meanwhile must not look like a transaction of another cluster."""
        [(snapshot, system, trimmed, keeps_history, is_foreign, incarnation)] = _rows(
            cursor,
            f"""SELECT b.snapshot, b.system_id, {self.trimmed or 0}, b.is_kept, EXISTS (
                SELECT FROM {self._relation()} WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())),
                {INCARNATION.format(Literal(self._relation()).as_string())}
            FROM {identifier(self.schema)}.history_bounds() b""",  # noqa: S608 # the name is quoted
        )
        if is_foreign:
            raise PositionUnknown(
                f"{self.name} has rows of transactions that this cluster has not run yet: they come from a"
                " restored dump",
                f"give them a new transaction id: UPDATE {self._table()} SET xid = DEFAULT"  # noqa: S608
                " WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())",
            )
        return DatabaseState(Snapshot.parse(snapshot), system, trimmed, keeps_history, incarnation)

    def mark(self, cursor: Cursor, snapshot: Snapshot) -> int | None:
        """A fingerprint of the rows that the snapshot sees; None: they are no longer kept."""
        [(mark,)] = _rows(cursor, f"SELECT {identifier(self.schema)}.{self.marked_by.format(snapshot)}")
        return None if mark is None else int(mark)

    def first(self, cursor: Cursor, start: Snapshot, end: Snapshot) -> int | None:
        """The lowest transaction among the rows that `end` sees and `start` did not."""
        return min(self._outermost(cursor, start, end, "ASC"), default=None)

    def last(self, cursor: Cursor, start: Snapshot, end: Snapshot) -> int | None:
        """The highest transaction among the rows that `end` sees and `start` did not."""
        return max(self._outermost(cursor, start, end, "DESC"), default=None)

    def _outermost(self, cursor: Cursor, start: Snapshot, end: Snapshot, order: str) -> list[int]:
        found = [self._first(cursor, "CAST(xid AS TEXT)", where, order) for where in self.between(start, end)]
        return [int(xid) for xid in found if xid is not None]

    def oldest_at(self, cursor: Cursor) -> int | None:
        """The time of the oldest row, in Unix milliseconds."""
        at = self._first(cursor, self.times[0], "TRUE", "ASC")
        return None if at is None else int(at)

    @staticmethod
    def prepare(cursor: Cursor) -> None:
        _rows(cursor, PLANNER_SETTINGS)

    def has_rows(self, cursor: Cursor, start: Snapshot, end: Snapshot) -> bool:
        found = " OR ".join(
            f"EXISTS (SELECT FROM {self._relation()} WHERE {where})" for where in self.between(start, end)
        )
        [(has_any,)] = _rows(cursor, f"SELECT {found or 'FALSE'}")
        return bool(has_any)

    def between(self, start: Snapshot, end: Snapshot) -> list[str]:
        """Conditions that together select the rows that `end` sees and `start` did not."""
        found = [self.among(start.committed_by(end), end)] if start.committed_by(end) else []
        return [*found, self.from_to(start.xmax, end.xmax, end)] if start.xmax < end.xmax else found

    def among(self, xids: Iterable[int], end: Snapshot) -> str:
        return " AND ".join(
            [f"xid = ANY (CAST('{_array(xids)}' AS XID8[]))", _is_visible(end), *self.conditions]
        )

    def from_to(self, first: int, behind: int, end: Snapshot) -> str:
        """The rows that `end` sees. If it sees all these transactions, their rows need not be tested."""
        sees_all = behind <= end.xmax and not any(first <= xid < behind for xid in end.open)
        visible = [] if sees_all else [_is_visible(end)]
        bounds = f"xid >= CAST('{first}' AS XID8) AND xid < CAST('{behind}' AS XID8)"
        return " AND ".join([bounds, *visible, *self.conditions])

    def count(self, cursor: Cursor, where: str, at_most: int) -> int:
        [(rows,)] = _rows(
            cursor,
            f"SELECT COUNT(*) FROM (SELECT FROM {self._relation()} WHERE {where} LIMIT {at_most}) x",  # noqa: S608
        )
        return int(rows)

    def count_between(self, cursor: Cursor, start: Snapshot, end: Snapshot, at_most: int) -> int:
        """How many rows `end` sees and `start` did not; `at_most` if there are more."""
        rows = 0
        for where in self.between(start, end):
            if rows < at_most:
                rows += self.count(cursor, where, at_most - rows)
        return rows

    def amount(self, cursor: Cursor, where: str, at_most: int | None) -> Amount:
        """Rows and bytes, of no more than `at_most` rows."""
        where = where if at_most is None else f"{where} LIMIT {at_most}"
        [(rows, size)] = _rows(
            cursor,
            f"""SELECT COUNT(*), COALESCE(SUM(size), 0) FROM (
                SELECT {self.size or 0} AS size FROM {self._relation()} WHERE {where}) x""",  # noqa: S608
        )
        return Amount(int(rows), int(size))

    def counts(self, cursor: Cursor, where: str, grouped_by: str = "xid") -> list[XidRange]:
        """How many rows there are, per transaction or per group of neighbouring transactions."""
        found = _rows(
            cursor,
            f"""SELECT CAST(MIN(xid) AS TEXT), CAST(MAX(xid) AS TEXT), COUNT(*)
            FROM {self._relation()} WHERE {where} GROUP BY {grouped_by} ORDER BY MIN(xid)""",  # noqa: S608
        )
        return [XidRange(int(first), int(last), rows) for first, last, rows in found]

    def query(self, where: str) -> str:
        return f"SELECT {self.columns.select_list()} FROM {self._relation()} WHERE {where}"  # noqa: S608

    def ranges(self, cursor: Cursor, first: int, behind: int, end: Snapshot) -> list[XidRange]:
        """The rows from `first` to before `behind`, in at most MAX_RANGES ranges of equal width."""
        width = max(1, -(-(behind - first) // MAX_RANGES))
        group = "xid"
        if width > 1:
            group = f"width_bucket(xid, CAST('{_array(range(first, behind, width))}' AS XID8[]))"
        return self.counts(cursor, self.from_to(first, behind, end), group)

    def split(self, cursor: Cursor, ranges: Iterable[XidRange], end: Snapshot, most: int) -> list[XidRange]:
        """The same rows, in ranges of at most `most` rows or of one transaction."""
        found: list[XidRange] = []
        for one in ranges:
            if one.rows > most and one.first < one.last:
                finer = self.ranges(cursor, one.first, one.last + 1, end)
                found += self.split(cursor, finer, end, most)
            else:
                found.append(one)
        return found

    def _first(self, cursor: Cursor, column: str, where: str, order: str) -> str | int | None:
        """A column of the first row by transaction, in ascending or descending order."""
        found = _rows(
            cursor,
            f"SELECT {column} FROM {self._relation()} WHERE {where} ORDER BY xid {order} LIMIT 1",  # noqa: S608
        )
        return found[0][0] if found else None

    def _table(self) -> str:
        return f"{identifier(self.schema)}.{self.table}"

    def _relation(self) -> str:
        return f"{identifier(self.schema)}.{self.name}"


def _is_visible(end: Snapshot) -> str:
    return f"pg_visible_in_snapshot(xid, '{end}')"


def _array(xids: Iterable[int]) -> str:
    return "{" + ",".join(map(str, xids)) + "}"


def _rows(cursor: Cursor, query: str) -> Sequence[Sequence[Any]]:
    cursor.execute(query)
    return cursor.fetchall()
