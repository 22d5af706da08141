"""What people did: written before the action, completed once, listed by page, and removed when it is old."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.clock import FakeClock
from tests.database import Connect

DAY_MS = 86_400_000


def begin(conn: psycopg.Connection, channel: str | None = None) -> int:
    [entry] = conn.execute("SELECT audit_begin('zoe', 'pause', %s)", (channel,)).fetchone() or ()
    assert isinstance(entry, int)
    return entry


def end(conn: psycopg.Connection, entry: int, outcome: str = "done") -> bool:
    [is_written] = conn.execute("SELECT audit_end(%s, %s)", (entry, outcome)).fetchone() or ()
    return bool(is_written)


def listed(conn: psycopg.Connection, *arguments: Any) -> list[int]:
    marks = ", ".join(["%s"] * len(arguments))
    return [row[0] for row in conn.execute(f"SELECT id FROM audit_list({marks})".encode(), arguments)]


def test_an_action_is_written_and_ends_once(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    begun_at = clock.at
    [entry] = (
        conn.execute(
            """SELECT audit_begin('zoë', 'dead retry', 'acme', 'group 7', '{"spread": 60}')"""
        ).fetchone()
        or ()
    )
    row = (entry, begun_at, "zoë", "dead retry", "acme", "group 7", {"spread": 60})
    assert conn.execute("SELECT * FROM audit_list()").fetchall() == [(*row, None, None)]
    clock.advance(5)
    assert end(conn, entry, "retried 9")
    clock.advance(5)
    assert not end(conn, entry, "failed")
    assert end(conn, entry, "retried 9"), "a call whose answer was lost may be made again"
    assert conn.execute("SELECT * FROM audit_list()").fetchall() == [(*row, "retried 9", begun_at + 5)]
    assert not end(conn, entry + 1)


def test_pages_are_by_id_the_newest_first(conn: psycopg.Connection) -> None:
    entries = [begin(conn, channel) for channel in ("a", None, "b", "a", "a")]
    assert listed(conn) == entries[::-1]
    assert listed(conn, None, entries[3], 2) == [entries[2], entries[1]]
    assert listed(conn, "a") == [entries[4], entries[3], entries[0]]
    assert listed(conn, "a", entries[4], 1) == [entries[3]]
    assert listed(conn, "a", entries[0]) == []
    assert listed(conn, "b") == [entries[2]]


def test_old_rows_are_removed_a_few_at_a_time(conn: psycopg.Connection, connect: Connect) -> None:
    clock = FakeClock(conn)
    old = [begin(conn) for _ in range(4)]
    clock.advance(1)
    kept = begin(conn)
    clock.advance(90 * DAY_MS - 2)
    conn.execute("SELECT maintain()")
    assert listed(conn) == [kept, *old[::-1]]
    clock.advance(1)
    with connect() as other, other.transaction():
        end(other, old[0])
        conn.execute("SELECT maintain(2)")
        assert listed(conn) == [kept, old[3], old[0]], "it does not wait for a row that is locked"
    conn.execute("SELECT queue_set(p_audit_keep_ms => 0)")
    conn.execute("SELECT maintain()")
    assert listed(conn) == [kept, old[3], old[0]]
    conn.execute("SELECT queue_set(p_audit_keep_ms => 3600000)")
    conn.execute("SELECT maintain()")
    assert listed(conn) == []
