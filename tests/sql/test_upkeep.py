"""rebuild and maintain."""

import psycopg

from tests.clock import FakeClock
from tests.database import Connect
from tests.judge import check, dequeue, drain, fold
from tests.sql.test_dequeue import fill


def count(conn: psycopg.Connection, table: str) -> int:
    row = conn.execute("SELECT COUNT(*) FROM " + table).fetchone()
    assert row is not None
    return int(row[0])


def test_rebuild_needs_nothing_but_the_messages(conn: psycopg.Connection) -> None:
    """Invariant 19."""
    clock = FakeClock(conn)
    fill(conn, a=5, b=5)
    conn.execute("SELECT message_create('later', '', %s)", (clock.at + 1000,))
    leased, _ = dequeue(conn, 4, 500)
    for table in ("tick", "ring", "wake", "postponed"):
        conn.execute(f"DELETE FROM {table}")
    check(conn)
    assert len(drain(conn)) == 6
    clock.advance(1000)
    assert {message.id for message in drain(conn)} > {message.id for message in leased}
    assert count(conn, "message") == 0


def test_rebuild_keeps_limits_and_intervals(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('limited', 1)")
    conn.execute("SELECT channel_set('slow', NULL, 1000)")
    fill(conn, limited=2, slow=2)
    assert len(dequeue(conn, 10)[0]) == 2
    conn.execute("SELECT rebuild()")
    fold(conn)
    assert dequeue(conn, 10)[0] == []
    clock.advance(1000)
    assert [message.channel for message in dequeue(conn, 10)[0]] == ["slow"]


def test_maintain_cleans_behind_the_folds_and_not_before(connect: Connect) -> None:
    conn, producer = connect(), connect(autocommit=False)
    fill(conn, a=3, b=3)
    producer.execute("SELECT message_create('late', '')")
    for _ in range(5):
        fill(conn, a=1)
    drain(conn)
    conn.execute("SELECT maintain()")
    producer.commit()
    assert [message.channel for message in drain(conn)] == ["late"]
    fill(conn, a=1)
    drain(conn)
    conn.execute("SELECT maintain()")
    assert count(conn, "wake") <= 2, "all but what the very last transactions wrote"
    assert conn.execute("SELECT maintain()").fetchone() == (0,)


def test_maintain_forgets_channels_long_quiet_and_no_others(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('slow', NULL, 86400000)")
    conn.execute("SELECT channel_set('waiting', p_paused => TRUE)")
    fill(conn, **{f"c{n:03}": 1 for n in range(300)}, slow=1, waiting=1)
    assert len(drain(conn, limit=1000)) == 301
    clock.advance(3_600_001)
    for _ in range(3):
        conn.execute("SELECT maintain()")
    assert conn.execute("SELECT channel FROM ring ORDER BY 1").fetchall() == [("slow",), ("waiting",)]
    fill(conn, c007=1)
    assert [message.channel for message in drain(conn)] == ["c007"]


def test_maintain_waits_for_nobody(connect: Connect) -> None:
    conn, other = connect(), connect(autocommit=False)
    fill(conn, a=3)
    drain(conn)
    other.execute("SELECT FROM upkeep FOR UPDATE")
    conn.execute("SET lock_timeout TO '1s'")
    assert conn.execute("SELECT maintain()").fetchone() == (0,)
