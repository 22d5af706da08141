"""sleep_look: whether a consumer that sleeps has something to do."""

from typing import NamedTuple

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import dequeue, dispatch
from tests.sql.test_dequeue import fill


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


class Look(NamedTuple):
    is_due: bool
    again_at: int
    is_awaited: bool
    now_at: int


def look(conn: psycopg.Connection, generation: int | None = None, lanes: list[str] | None = None) -> Look:
    row = conn.execute("SELECT * FROM sleep_look(%s, %s)", (generation, lanes)).fetchone()
    assert row is not None
    return Look(*row)


def work(conn: psycopg.Connection, lease_ms: int, *, ends: bool) -> None:
    fill(conn, a=1)
    dispatch(conn)
    [message], _ = dequeue(conn, 1, lease_ms)
    if ends:
        conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    dispatch(conn)


def test_nothing_to_do_and_nothing_written(conn: psycopg.Connection, clock: FakeClock) -> None:
    dispatch(conn)
    with conn.transaction():
        assert look(conn) == (False, clock.at + 1000, False, clock.at)
        assert conn.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_what_was_created_and_what_becomes_due(conn: psycopg.Connection, clock: FakeClock) -> None:
    dispatch(conn)
    conn.execute("SELECT message_create('a', '', %s)", (clock.at + 300,))
    assert look(conn).is_due, "it must be dispatched"
    dispatch(conn)
    assert look(conn)[:2] == (False, clock.at + 300)
    clock.advance(300)
    assert look(conn).is_due
    dispatch(conn)
    assert look(conn).is_due, "it can be dequeued"
    assert len(dequeue(conn, 5)[0]) == 1
    dispatch(conn)
    assert not look(conn).is_due


def test_messages_of_a_lane_are_due_for_its_consumers_only(conn: psycopg.Connection) -> None:
    conn.execute("SELECT message_create('a', '', p_lane => 'slow')")
    assert look(conn, lanes=["other"]).is_due, "it must be dispatched, whichever lane is served"
    dispatch(conn)
    due = {name: look(conn, lanes=lanes).is_due for name, lanes in LANES.items()}
    assert due == {"all": True, "slow": True, "both": True, "other": False, "none": False}


LANES = {"all": None, "slow": ["slow"], "both": ["default", "slow"], "other": ["default"], "none": []}


def test_a_lease_that_ran_out(conn: psycopg.Connection, clock: FakeClock) -> None:
    work(conn, 5000, ends=False)
    assert not look(conn).is_due
    clock.advance(4999)
    assert not look(conn).is_due
    clock.advance(1)
    assert look(conn).is_due
    dispatch(conn)
    assert [message.attempts for message in dequeue(conn, 5)[0]] == [2]


def test_leases_that_have_all_ended_are_not_looked_for_each_second(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    """The sweep runs every ten seconds while leases may be there, and then no more."""
    work(conn, 25_000, ends=True)
    dispatches = []
    for second in range(1, 60):
        clock.advance(1000)
        if look(conn).is_due:
            dispatches.append(second)
            dispatch(conn)
    assert dispatches == [10, 20, 30]


def test_whether_someone_would_notify(conn: psycopg.Connection) -> None:
    generation = 0
    for _ in range(2):
        [(generation, is_sure)] = conn.execute("SELECT * FROM sleep_begin()").fetchall()
    assert is_sure
    assert look(conn, generation).is_awaited
    assert not look(conn).is_awaited
    assert not look(conn, generation - 1).is_awaited
    conn.execute("SELECT queue_set(p_notify => FALSE)")
    assert not look(conn, generation).is_awaited


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_an_old_snapshot_would_not_see(conn: psycopg.Connection, level: str) -> None:
    conn.execute("BEGIN ISOLATION LEVEL " + level)
    with pytest.raises(psycopg.Error, match="sleep_look") as caught:
        look(conn)
    assert caught.value.sqlstate == "LM009"
    conn.execute("ROLLBACK")
