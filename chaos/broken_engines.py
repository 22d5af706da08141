"""Engines with a known defect: a run on one of them must fail, or the judge is blind."""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from chaos.world import SCHEMA
from tests.seeded_bugs import BUGS, SeededBug


@dataclass(frozen=True)
class BrokenEngine:
    """`refuted_by` are the invariants of which at least one must be found broken."""

    bugs: Sequence[SeededBug]
    refuted_by: tuple[str, ...]
    only: tuple[str, ...] = ("worker-kill", "worker-stop", "cut")


BROKEN = {
    "limit-ignored": BrokenEngine([BUGS["one more than the limit"]], ("7",)),
    "double-lease": BrokenEngine(
        [
            SeededBug(
                "core/ready_take.sql",
                "RETURNING r)",
                "RETURNING r), again AS (\n"
                "        INSERT INTO ready SELECT (g.r).* FROM gone g"
                " WHERE (g.r).id % 20 = 0 AND random() < 0.5 ON CONFLICT DO NOTHING)",
                (),
            )
        ],
        ("4",),
    ),
}


def break_engine(conn: psycopg.Connection, name: str) -> None:
    with conn.transaction():
        conn.execute(sql.SQL("SET LOCAL search_path TO {}, pg_temp").format(sql.Identifier(SCHEMA)))
        for bug in BROKEN[name].bugs:
            conn.execute(bug.text().encode())
