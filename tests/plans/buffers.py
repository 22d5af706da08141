"""Counts the buffers that a call touches, as reported by the server."""

from dataclasses import dataclass, field
from typing import Any

import psycopg

COUNTED = (
    "Shared Hit Blocks",
    "Shared Read Blocks",
    "Local Hit Blocks",
    "Local Read Blocks",
    "Temp Read Blocks",
)

Costs = dict[str, int]


def function_scan(plan: dict[str, Any]) -> dict[str, Any]:
    """The plan node of the call itself; the nodes above it store its answer."""
    while plan["Node Type"] != "Function Scan":
        (plan,) = plan["Plans"]
    return plan


@dataclass
class Meter:
    """Makes calls in one session and counts the buffers that each touches, including all its statements."""

    conn: psycopg.Connection
    counted: dict[str, list[int]] = field(default_factory=dict)
    answers: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Not a temporary table: the first of a session creates a schema, and all sessions plan again.
        self.conn.execute(
            "SELECT FROM pg_catalog.pg_tables WHERE (schemaname, tablename) = ('public', 'answer')"
        ).fetchall() or self.conn.execute(
            "CREATE TABLE public.answer (ord BIGINT GENERATED ALWAYS AS IDENTITY, given JSONB)"
        )

    def count(self, name: str, call: str) -> list[Any]:
        """Make the call, count it under its name, and return its rows."""
        explained = self.conn.execute(
            "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)"
            f" INSERT INTO public.answer (given) SELECT to_jsonb(r) FROM {call} r"
        ).fetchall()[0][0]
        node = function_scan(explained[0]["Plan"])
        self.counted.setdefault(name, []).append(sum(node[kind] for kind in COUNTED))
        rows = self.conn.execute("SELECT given FROM public.answer ORDER BY ord").fetchall()
        self.conn.execute("TRUNCATE public.answer")
        answer = [row[0] for row in rows]
        self.answers.append((name, [without_varying_columns(row) for row in answer]))
        return answer

    def costs(self) -> Costs:
        """The lower quartile of the counts: a page split, or a catalogue that is read again, does not
        matter, but a repeated cost does.
        """
        return {name: sorted(counts)[len(counts) // 4] for name, counts in self.counted.items()}

    def forget(self) -> None:
        self.counted.clear()
        self.answers.clear()


def without_varying_columns(row: Any) -> Any:
    """An answer without the columns that differ from one call to the next."""
    if not isinstance(row, dict):
        return row
    return {
        key: value
        for key, value in row.items()
        if key not in {"id", "token", "waited_ms"} and not key.endswith("_at")
    }
