"""A queue with something in every state, and what its tables contain: a refused call changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from tests.invariants import dispatch

Conn = psycopg.Connection[Any]


@dataclass(frozen=True)
class Filled:
    """Ids and tokens that exist."""

    ids: list[int]
    tokens: list[str]


def fill(conn: Conn) -> Filled:
    """Messages in every state, a batch, a schedule, a worker, a follower and results."""
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    for channel in ("a", "b", "mine"):
        conn.execute(
            "SELECT COUNT(*) FROM message_create_many("
            "array_fill(%s::TEXT, '{8}'), array_fill('x'::BYTEA, '{8}'),"
            " p_max_attempts => '{1,1,2,2,3,3,9,9}',"
            " p_keep_results_ms => array_fill(60000, '{8}')::BIGINT[])",
            (channel,),
        )
    dispatch(conn)
    taken = conn.execute("SELECT id, token FROM message_dequeue(12, 3600000)").fetchall()
    for message_id, token in taken[:4]:
        conn.execute("SELECT message_retry(%s, %s, p_error => 'E 1')", (message_id, token))
    for message_id, token in taken[4:7]:
        conn.execute("SELECT message_complete(%s, %s, 'r')", (message_id, token))
    for call in (
        "batch_open('a', 'a', 'x')",
        "schedule_open('{a}')",
        "history_follow('a', '1:1:')",
        "worker_report(gen_random_uuid(), 'a', 'h', 1, '0', 0, '{}', 1, 0, 'serving')",
        "result_save('a', 'x')",
        "channel_set('b', 2, 1000, 2, FALSE, 100, 3)",
        "message_create('a', 'x', p_delay_ms => 3600000)",
        "dispatch()",
    ):
        conn.execute(f"SELECT * FROM {call}".encode())
    ids = [row[0] for row in conn.execute("SELECT id FROM message UNION SELECT id FROM dead")]
    return Filled([*ids, *(row[0] for row in taken)], [str(token) for _, token in taken])


class Tables:
    """All tables of the queue."""

    def __init__(self, conn: Conn) -> None:
        self.conn = conn
        query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
        names = [name for (name,) in conn.execute(query)]
        self.query = " UNION ALL ".join(
            f"SELECT '{name}', COUNT(*), SUM(hashtext(t::TEXT)) FROM {name} t" for name in names
        )

    def digest(self) -> dict[str, tuple[Any, ...]]:
        """For each table its number of rows, and a hash of them."""
        rows = self.conn.execute(self.query.encode())
        return {name: (count, found) for name, count, found in rows}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The tables that differ."""
    return [name for name in before if before[name] != after[name]]
