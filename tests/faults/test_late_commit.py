"""A lease that commits after the sweep passed its end is still swept: invariants 1, 4, 5, 13."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import check, dequeue, dispatch

LEASE_MS = 50


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


def create(conn: psycopg.Connection, channel: str = "a", content: bytes = b"x") -> None:
    conn.execute("SELECT message_create(%s, %s)", (channel, content))


def sweep_past(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Sweep other leases, until the sweep is far beyond the end of the lease that is about to commit."""
    for step in range(5):
        create(conn, "others", f"{step}".encode())
        dispatch(conn)
        assert len(dequeue(conn, 1, LEASE_MS)[0]) == 1
        clock.advance(LEASE_MS + 1)
        dispatch(conn)
        [taken], _ = dequeue(conn, 1)
        conn.execute("SELECT message_complete(%s, %s)", (taken.id, taken.token))
        dispatch(conn)
    swept = conn.execute("SELECT swept_at FROM tick").fetchone()
    assert swept is not None
    assert swept[0] >= clock.at - LEASE_MS


def test_a_dequeue(conn: psycopg.Connection, connect: Connect, clock: FakeClock) -> None:
    create(conn)
    dispatch(conn)
    late = connect(autocommit=False)
    [first], _ = dequeue(late, 1, LEASE_MS)
    sweep_past(conn, clock)
    late.commit()
    dispatch(conn)
    [second], _ = dequeue(conn)
    assert (second.id, second.attempts) == (first.id, 2)
    assert second.token != first.token
    assert conn.execute("SELECT message_complete(%s, %s)", (first.id, first.token)).fetchone() == ("lost",)
    check(conn)


def test_a_dequeue_of_the_last_attempt_becomes_a_dead_letter(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock
) -> None:
    conn.execute("SELECT message_create('a', 'x', p_max_attempts => 1)")
    dispatch(conn)
    late = connect(autocommit=False)
    assert dequeue(late, 1, LEASE_MS)[0]
    sweep_past(conn, clock)
    late.commit()
    dispatch(conn)
    assert conn.execute("SELECT attempts FROM dead").fetchall() == [(1,)]
    check(conn)


def test_an_extension(conn: psycopg.Connection, connect: Connect, clock: FakeClock) -> None:
    create(conn)
    dispatch(conn)
    [first], _ = dequeue(conn, 1, 10)
    late = connect(autocommit=False)
    extended = late.execute(
        "SELECT * FROM message_extend(%s, %s, %s)", (first.id, first.token, LEASE_MS)
    ).fetchone()
    assert extended == ("extended", clock.at + LEASE_MS)
    sweep_past(conn, clock)
    late.commit()
    for _ in range(100):  # the row was locked when the sweep passed: the sweep tries again after a pause
        clock.advance(50)
        dispatch(conn)
    [second], _ = dequeue(conn)
    assert (second.id, second.attempts) == (first.id, 2)
    check(conn)


def test_an_extension_when_the_sweep_has_passed_the_old_end_too(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock
) -> None:
    """The row is locked when its lease runs out; after the commit the lease lasts until its new end."""
    create(conn)
    dispatch(conn)
    [first], _ = dequeue(conn, 1, 10)
    late = connect(autocommit=False)
    late.execute("SELECT * FROM message_extend(%s, %s, %s)", (first.id, first.token, 2000)).fetchone()
    clock.advance(500)
    dispatch(conn)
    late.commit()
    clock.advance(1000)
    dispatch(conn)
    assert dequeue(conn)[0] == []
    clock.advance(501)
    dispatch(conn)
    [second], _ = dequeue(conn)
    assert second.attempts == 2
    check(conn)


def test_a_release(conn: psycopg.Connection, connect: Connect, clock: FakeClock) -> None:
    """The lease ran out and the new time came before the release committed."""
    create(conn)
    dispatch(conn)
    [first], _ = dequeue(conn, 1, LEASE_MS)
    late = connect(autocommit=False)
    parameters = (first.id, first.token, clock.at + 20)
    assert late.execute("SELECT message_retry(%s, %s, %s)", parameters).fetchone() == ("retried",)
    sweep_past(conn, clock)
    late.commit()
    dispatch(conn)
    [second], _ = dequeue(conn)
    assert (second.id, second.attempts) == (first.id, 1), (
        "released without an error: the attempt is not used up"
    )
    check(conn)


def test_a_release_that_is_rolled_back(conn: psycopg.Connection, connect: Connect, clock: FakeClock) -> None:
    create(conn)
    dispatch(conn)
    [first], _ = dequeue(conn, 1, LEASE_MS)
    late = connect(autocommit=False)
    assert late.execute("SELECT message_retry(%s, %s)", (first.id, first.token)).fetchone() == ("retried",)
    sweep_past(conn, clock)
    late.rollback()
    for _ in range(100):
        clock.advance(50)
        dispatch(conn)
    [second], _ = dequeue(conn)
    assert (second.id, second.attempts) == (first.id, 2)
    check(conn)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_dequeue_under_a_limit(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock, limit: int
) -> None:
    """Also invariant 7: late leases hold their slots until they are swept, and no longer."""
    conn.execute("SELECT * FROM channel_set('a', %s)", (limit,))
    for _ in range(limit * 3):
        create(conn)
    dispatch(conn)
    late = connect(autocommit=False)
    assert len(dequeue(late, 10, LEASE_MS)[0]) == limit
    sweep_past(conn, clock)
    late.commit()
    for _ in range(100):
        clock.advance(50)
        dispatch(conn)
    again, _ = dequeue(conn, 10)
    assert [m.attempts for m in again] == [2] * limit
    assert dequeue(conn, 10)[0] == []
    check(conn)


def test_more_leases_run_out_at_once_than_one_dispatch_handles(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    conn.execute(
        "SELECT FROM message_create_many(array_fill('a'::TEXT, '{25}'), array_fill(''::BYTEA, '{25}'))"
    )
    dispatch(conn)
    assert len(dequeue(conn, 25, LEASE_MS)[0]) == 25
    dispatch(conn)
    clock.advance(LEASE_MS)
    for _ in range(10):
        conn.execute("SELECT dispatch(10)")
    assert conn.execute("SELECT COUNT(*) FROM leases").fetchone() == (0,)
    assert len(dequeue(conn, 100)[0]) == 25
    check(conn)
