"""The mark of a position: it stays the same while the database has the rows below it, and differs
otherwise."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import dequeue, dispatch
from tests.sql.test_followers import days, present
from tests.sql.test_history import DAY, NOON, complete, finish_one, lease, maintain, switch_on


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn, NOON)


def mark(conn: psycopg.Connection, snapshot: str, *, dead: bool = False) -> int | None:
    row = conn.execute("SELECT history_mark(%s, %s)", (snapshot, dead)).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def behind_last(conn: psycopg.Connection) -> str:
    """The position right after the last row, as readers store it."""
    row = conn.execute("SELECT MAX(xid)::TEXT::BIGINT + 1 FROM history").fetchone()
    assert row is not None
    return f"{row[0]}:{row[0]}:"


def kill(conn: psycopg.Connection) -> int:
    conn.execute("SELECT message_create('a', 'x', p_max_attempts => 1)")
    dispatch(conn)
    [message] = dequeue(conn, 1, 60_000)[0]
    conn.execute("SELECT message_retry(%s, %s, p_error => 'no')", (message.id, message.token))
    return message.id


def test_it_stays_while_rows_come(conn: psycopg.Connection) -> None:
    switch_on(conn)
    finish_one(conn)
    at = present(conn)
    first = mark(conn, at)
    assert first
    for _ in range(3):
        finish_one(conn)
    assert mark(conn, at) == first
    assert mark(conn, present(conn)) not in {first, None, 0}


def test_a_position_that_sees_no_row(conn: psycopg.Connection) -> None:
    at = present(conn)
    assert (mark(conn, at), mark(conn, at, dead=True)) == (0, 0)
    switch_on(conn)
    finish_one(conn)
    kill(conn)
    assert (mark(conn, at), mark(conn, at, dead=True)) == (0, 0)


def test_what_was_open_at_the_position_does_not_change_it(connect: Connect, conn: psycopg.Connection) -> None:
    switch_on(conn)
    late = connect(autocommit=False)
    complete(late, lease(conn))
    finish_one(conn)
    at = present(conn)
    assert at.split(":")[2], "it has an open transaction"
    before = mark(conn, at)
    late.commit()
    assert mark(conn, at) == before
    assert mark(conn, present(conn)) != before


@pytest.mark.parametrize("which", ["MAX", "MIN"], ids=["the last", "one that committed before, or after"])
def test_it_differs_where_a_row_is_missing(conn: psycopg.Connection, which: str) -> None:
    """A standby may have the last id and lack a lower one, whose transaction committed later."""
    switch_on(conn)
    for _ in range(3):
        finish_one(conn)
    at = behind_last(conn)
    before = mark(conn, at)
    conn.execute(f"DELETE FROM finished WHERE xid::TEXT = (SELECT {which}(xid) FROM finished)::TEXT".encode())
    assert mark(conn, at) not in {before, None}


@pytest.mark.parametrize("change", ["id = id + 1", "finished_at = finished_at + 1"])
def test_it_differs_where_another_row_has_the_same_transaction(conn: psycopg.Connection, change: str) -> None:
    switch_on(conn)
    finish_one(conn)
    at = behind_last(conn)
    before = mark(conn, at)
    conn.execute(f"UPDATE finished SET {change}".encode())
    assert mark(conn, at) not in {before, None}


def test_days_that_are_dropped_do_not_change_it(conn: psycopg.Connection, clock: FakeClock) -> None:
    days(conn, clock, 4)
    at = behind_last(conn)
    before = mark(conn, at)
    assert before
    maintain(conn)
    assert conn.execute("SELECT COUNT(*) FROM history").fetchone() == (2,)
    assert mark(conn, at) == before
    clock.advance(10 * DAY)
    maintain(conn)
    assert conn.execute("SELECT COUNT(*) FROM history").fetchone() == (0,)
    assert mark(conn, at) is None


def test_the_mark_of_deaths_stays_after_the_dead_letters_are_gone(conn: psycopg.Connection) -> None:
    """Also if no history is kept."""
    first, second = kill(conn), kill(conn)
    at = present(conn)
    before = mark(conn, at, dead=True)
    assert before
    conn.execute("SELECT dead_retry(%s)", ([first],))
    conn.execute("SELECT dead_discard(%s)", ([second],))
    kill(conn)
    assert mark(conn, at, dead=True) == before
    conn.execute("DELETE FROM dead_mark WHERE xid < (SELECT MAX(xid) FROM dead)")
    assert mark(conn, at, dead=True) == 0


def test_marks_of_deaths_go_after_90_days(conn: psycopg.Connection, clock: FakeClock) -> None:
    kill(conn)
    at = present(conn)
    clock.advance(80 * DAY)
    kill(conn)
    maintain(conn)
    assert mark(conn, at, dead=True)
    later = present(conn)
    clock.advance(11 * DAY)
    maintain(conn)
    assert conn.execute("SELECT COUNT(*) FROM dead_mark").fetchone() == (1,)
    assert mark(conn, later, dead=True)
    died = conn.execute("SELECT MIN(xid)::TEXT::BIGINT + 1 FROM dead").fetchone()
    assert died is not None
    assert mark(conn, f"{died[0]}:{died[0]}:", dead=True) is None, "it is no longer known"


def test_a_transaction_in_which_many_die_has_one_mark(connect: Connect, conn: psycopg.Connection) -> None:
    for _ in range(3):
        conn.execute("SELECT message_create('a', 'x', p_max_attempts => 1)")
    dispatch(conn)
    one = connect(autocommit=False)
    for message in dequeue(conn, 3, 60_000)[0]:
        one.execute("SELECT message_retry(%s, %s, p_error => 'no')", (message.id, message.token))
    one.commit()
    assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (3,)
    assert conn.execute("SELECT COUNT(*) FROM dead_mark").fetchone() == (1,)


@pytest.mark.parametrize("snapshot", [None, "", "x", "10:9:"])
def test_a_bad_snapshot_is_refused(conn: psycopg.Connection, snapshot: str | None) -> None:
    with pytest.raises(psycopg.Error, match="the snapshot is not valid") as error:
        mark(conn, snapshot)  # type: ignore[arg-type]
    assert error.value.sqlstate == "LM010"


def test_large_transactions_do_not_make_it_slow(conn: psycopg.Connection) -> None:
    """It is made of whole transactions with 10,000 rows together, beginning with the last one."""
    insert = """
        INSERT INTO finished (id, created_at, dequeue_at, finished_at, attempts, content_bytes, outcome,
            channel, lane, priority, cost)
        SELECT n, 0, 0, 1, 1, 0, 'completed', 'a', 'default', 0, 1
        FROM generate_series(%s::INT, %s::INT) n"""
    for first, last in [(1, 1), (2, 9_998), (9_999, 9_999), (10_000, 10_001)]:
        conn.execute(insert, (first, last))
    at = present(conn)
    before = mark(conn, at)
    conn.execute("UPDATE finished SET finished_at = 2 WHERE id = 1")
    assert mark(conn, at) == before, "without the last row, there are 10,000"
    conn.execute("UPDATE finished SET finished_at = 2 WHERE id = 2")
    assert mark(conn, at) != before
