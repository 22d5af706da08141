"""What a call touches does not grow with what it does not need, whatever the planner believes.

Buffers, not seconds. The session plans every statement while the tables are empty and analysed as such, and
keeps those plans: this is how a long-lived consumer of a drained queue finds itself when a flood comes in.
"""

import re
from collections.abc import Callable

import psycopg
import pytest

from tests.database import Connect
from tests.judge import fold

FEW, MANY = 200, 5000
TABLES = ("message", "ring", "wake", "tick", "postponed", "channel", "dead")


def buffers(conn: psycopg.Connection, call: str) -> int:
    """The buffers that one call touched, all of its statements included."""
    rows = conn.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) SELECT * FROM {call}").fetchall()
    assert "Function Scan" in rows[0][0]
    found = re.search(r"shared hit=(\d+)(?: read=(\d+))?", rows[1][0] + rows[2][0])
    assert found, rows
    return int(found[1]) + int(found[2] or 0)


def flood(conn: psycopg.Connection, channels: int) -> None:
    conn.execute(
        """
        SELECT COUNT(*) FROM generate_series(1, 4) CROSS JOIN LATERAL message_create_many(
            (SELECT array_agg('c' || n) FROM generate_series(1, %s) n), array_fill('x'::BYTEA, ARRAY[%s]))""",
        (channels, channels),
    )


def held(conn: psycopg.Connection, call: str) -> str:
    """A call on messages that are leased at this moment, ten at most."""
    row = conn.execute(
        "SELECT array_agg(id), array_agg(token) FROM (SELECT id, token FROM message WHERE leased LIMIT 10) m"
    ).fetchone()
    assert row is not None
    ids, tokens = row
    listed = ", ".join(f"'{token}'" for token in tokens)
    return call.format(ids=f"ARRAY{ids}::BIGINT[]", tokens=f"ARRAY[{listed}]::UUID[]")


CALLS: dict[str, Callable[[psycopg.Connection], str]] = {
    "create": lambda _: "message_create('c1', 'x')",
    "fold": lambda _: "wake_fold(10)",
    "dequeue": lambda _: "message_dequeue(10)",
    "extend": lambda conn: held(conn, "message_extend_many({ids}, {tokens}, 60000)"),
    "defer": lambda conn: held(conn, "message_defer_many({ids}, {tokens})"),
    "complete": lambda conn: held(conn, "message_complete_many({ids}, {tokens})"),
    "maintain": lambda _: "maintain(10)",
}


def measured(connect: Connect, channels: int) -> dict[str, int]:
    conn, other = connect(), connect()
    conn.execute("SELECT channel_set('a', 10), message_create('a', 'x')")
    fold(conn)
    for table in TABLES:  # as autovacuum leaves a queue with one message in it
        other.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        other.execute(f"VACUUM ANALYZE {table}")
    for call in CALLS.values():  # the plans that stay
        fold(conn)
        conn.execute("SELECT * FROM message_dequeue(1)")
        conn.execute("SELECT * FROM " + call(conn))
    flood(other, channels)
    counted = {"fold": buffers(conn, CALLS["fold"](conn))}
    fold(conn)
    for name, call in CALLS.items():
        if name != "fold":
            conn.execute("SELECT * FROM message_dequeue(10)")
            counted[name] = buffers(conn, call(conn))
    return counted


@pytest.fixture(scope="module")
def costs() -> dict[int, dict[str, int]]:
    return {}


@pytest.mark.parametrize("channels", [FEW, MANY])
def test_buffers_are_counted(connect: Connect, costs: dict[int, dict[str, int]], channels: int) -> None:
    costs[channels] = measured(connect, channels)
    assert costs[channels].keys() == CALLS.keys()


@pytest.mark.parametrize("call", CALLS)
def test_no_call_costs_more_with_more_channels(
    connect: Connect, costs: dict[int, dict[str, int]], call: str
) -> None:
    for channels in (FEW, MANY):
        if channels not in costs:
            costs[channels] = measured(connect, channels)
    few, many = costs[FEW][call], costs[MANY][call]
    assert many <= 2 * few + 20, f"{few} buffers with {FEW} channels, {many} with {MANY}"
