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
    times: int = 1  # how often each of these faults happens, at least


def _of(*names: str) -> list[SeededBug]:
    return [BUGS[name] for name in names]


def _bug(file: str, right: str, wrong: str) -> SeededBug:
    return SeededBug(file, right, wrong, ())


BROKEN = {
    "tokenless-complete": BrokenEngine(
        # 13: the two defects together may also stop the dispatcher, by the same stub twice
        _of("tokenless complete", "a token that outlives its lease"),
        ("5", "6", "13"),
    ),
    "token-outlives-lease": BrokenEngine(_of("a token that outlives its lease"), ("4", "5", "6")),
    "early-release": BrokenEngine(
        [
            _bug(
                "dispatch/lanes_dispatch.sql",
                "(WHERE e.at <= p_now) AS due, BOOL_OR(e.at > p_now)",
                "(WHERE e.at <= p_now + 300) AS due, BOOL_OR(e.at > p_now + 300)",
            ),
            _bug("dispatch/scheduled_add.sql", "WHERE e.at > p_now", "WHERE e.at > p_now + 300"),
        ],
        ("9",),
    ),
    "limit-ignored": BrokenEngine(_of("one more than the limit"), ("7",)),
    "rate-ignored": BrokenEngine(_of("a token for each entry in ready, again"), ("10",)),
    "lost-notice": BrokenEngine(
        [
            _bug(
                "core/message_create_many.sql",
                "INSERT INTO notice (xid, lo_id, hi_id, n)"
                " VALUES (v_xid, v_lo, currval('message_id_seq'), v_count)",
                "INSERT INTO notice (xid, lo_id, hi_id, n)"
                " VALUES (v_xid, v_lo, currval('message_id_seq') - 1, v_count)",
            )
        ],
        ("13",),
    ),
    "double-lease": BrokenEngine(
        [
            _bug(
                "core/ready_take.sql",
                "RETURNING r)",
                "RETURNING r), again AS (\n"
                "        INSERT INTO ready SELECT (g.r).* FROM gone g"
                " WHERE (g.r).id % 20 = 0 AND random() < 0.5 ON CONFLICT DO NOTHING)",
            )
        ],
        ("4", "5"),
    ),
    "unfair": BrokenEngine(
        [
            _bug(
                "dispatch/weight_step.sql",
                "1000 / COALESCE(p_weight, 1)::DOUBLE PRECISION",
                "1000 + 0 * COALESCE(p_weight, 1)::DOUBLE PRECISION",
            )
        ],
        ("12, 21",),
    ),
    "asynchronous-create": BrokenEngine(
        [
            _bug(
                "core/message_create_many.sql",
                "    SELECT s.content_max_bytes,",
                "    PERFORM set_config('synchronous_commit', 'off', TRUE);\n    SELECT s.content_max_bytes,",
            )
        ],
        ("1",),
        only=("server-kill",),
        times=8,
    ),
}


def break_engine(conn: psycopg.Connection, name: str) -> None:
    with conn.transaction():
        conn.execute(sql.SQL("SET LOCAL search_path TO {}, pg_temp").format(sql.Identifier(SCHEMA)))
        for bug in BROKEN[name].bugs:
            conn.execute(bug.text().encode())
