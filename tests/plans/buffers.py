"""What a call touches: counted in buffers, by the server itself."""

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
    """The node of the call itself: what keeps its answer is above it."""
    while plan["Node Type"] != "Function Scan":
        (plan,) = plan["Plans"]
    return plan


@dataclass
class Meter:
    """Makes calls in one session and counts what each touched, all of its statements included."""

    conn: psycopg.Connection
    counted: dict[str, list[int]] = field(default_factory=dict)
    answers: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Not a temporary table: a session's first one makes a schema, for which every session plans anew.
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
        self.answers.append((name, [without_chance(row) for row in answer]))
        return answer

    def costs(self) -> Costs:
        """The lower quartile of what was counted: a page that is split, or a catalogue that is read anew,
        does not matter; a habit does.
        """
        return {name: sorted(counts)[len(counts) // 4] for name, counts in self.counted.items()}

    def forget(self) -> None:
        self.counted.clear()
        self.answers.clear()


def without_chance(row: Any) -> Any:
    """An answer, but for what differs from one call to the next."""
    if not isinstance(row, dict):
        return row
    return {
        key: value for key, value in row.items() if key not in {"id", "token"} and not key.endswith("_at")
    }
