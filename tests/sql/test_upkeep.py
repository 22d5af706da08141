"""rebuild and maintain."""

import psycopg

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import check, dequeue, dispatch, drain
from tests.sql.test_dequeue import fill

PLACES = (
    "tick",
    "notice",
    "scheduled",
    "alarm",
    "line",
    "backlog",
    "ready",
    "ready_locked",
    "recent_tag",
    "slots",
)


def count(conn: psycopg.Connection, table: str) -> int:
    row = conn.execute("SELECT COUNT(*) FROM " + table).fetchone()
    assert row is not None
    return int(row[0])


def test_rebuild_needs_nothing_but_the_messages(conn: psycopg.Connection) -> None:
    """Invariant 19; and the leases and policies."""
    clock = FakeClock(conn)
    fill(conn, a=105, b=5)
    conn.execute("SELECT message_create('later', '', %s)", (clock.at + 1000,))
    leased, _ = dequeue(conn, 4, 500)
    for table in PLACES:
        conn.execute(f"DELETE FROM {table}")
    check(conn)
    assert len(drain(conn)) == 106
    clock.advance(1000)
    assert {message.id for message in drain(conn)} > {message.id for message in leased}
    assert count(conn, "message") == 0


def test_rebuild_keeps_limits_and_intervals(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('limited', 1)")
    conn.execute("SELECT channel_set('slow', NULL, 1000000)")
    fill(conn, limited=2, slow=2)
    assert len(dequeue(conn, 10)[0]) == 2
    conn.execute("SELECT rebuild()")
    dispatch(conn)
    assert dequeue(conn, 10)[0] == []
    clock.advance(999)
    dispatch(conn)
    assert dequeue(conn, 10)[0] == []
    clock.advance(1)
    dispatch(conn)
    assert [message.channel for message in dequeue(conn, 10)[0]] == ["slow"]


def test_maintain_cleans_behind_the_dispatches_and_not_before(connect: Connect) -> None:
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
    assert count(conn, "notice") <= 2, "all except those of the last transactions"
    assert conn.execute("SELECT maintain()").fetchone() == (0,)


def test_nothing_is_kept_of_channels_that_are_served(conn: psycopg.Connection) -> None:
    """Except for how much they were served."""
    fill(conn, **{f"c{n:03}": 2 for n in range(300)})
    assert len(drain(conn, limit=100)) == 600
    for number in range(10):
        fill(conn, **{f"d{number}": 1})
        drain(conn)
    assert count(conn, "backlog") == 300, "of backlogs that became empty a moment ago"
    conn.execute("SELECT setval('turn', last_value + 200000) FROM turn")
    conn.execute("SELECT maintain()")
    assert {table: count(conn, table) for table in PLACES if table not in {"tick", "notice"}} == {
        table: 0 for table in PLACES if table not in {"tick", "notice"}
    }


def test_maintain_waits_for_nobody(connect: Connect) -> None:
    conn, other = connect(), connect(autocommit=False)
    fill(conn, a=3)
    drain(conn)
    other.execute("SELECT FROM maintenance FOR UPDATE")
    conn.execute("SET lock_timeout TO '1s'")
    assert conn.execute("SELECT maintain()").fetchone() == (0,)
