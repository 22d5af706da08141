"""The sweep of leases that ran out, and what a dispatch does when somebody holds a row that it needs."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, audit, check, dequeue, dispatch, drain
from tests.sql.test_dequeue import fill


def leased(conn: psycopg.Connection, lease_ms: int, **channels: int) -> list[Delivery]:
    fill(conn, **channels)
    messages, _ = dequeue(conn, sum(channels.values()), lease_ms)
    assert len(messages) == sum(channels.values())
    return messages


def test_leases_that_somebody_holds_are_skipped(connect: Connect) -> None:
    """Invariant 13: a finishing call that is slow to commit hides no expired leases but its own."""
    conn, finisher = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    mine = leased(conn, 100, a=30)
    others = leased(conn, 100, b=5)
    finisher.execute(
        "SELECT message_complete_many(%s, %s)",
        ([message.id for message in mine], [message.token for message in mine]),
    )
    clock.advance(100)
    for _ in range(20):
        conn.execute("SELECT dispatch(10)")
    served, _ = dequeue(conn, 100)
    assert {message.id for message in served} == {message.id for message in others}
    finisher.rollback()
    clock.advance(2000)
    assert {message.id for message in drain(conn)} == {message.id for message in mine}


def test_leases_that_were_held_and_then_finished_are_not_searched_again(connect: Connect) -> None:
    conn, finisher = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    [message] = leased(conn, 100, a=1)
    finisher.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    clock.advance(100)
    dispatch(conn)
    audit(conn)
    finisher.commit()
    clock.advance(2000)
    assert drain(conn) == []
    assert conn.execute("SELECT COUNT(*) FROM lease").fetchone() == (0,)
    assert conn.execute("SELECT COUNT(*) FROM alarm").fetchone() == (0,)


def test_a_lease_extended_while_the_sweep_looked_is_left_alone(connect: Connect) -> None:
    """Invariants 4 and 5: the lease's end is read again under the message's lock."""
    conn, holder = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    [message] = leased(conn, 100, a=1)
    holder.execute("SELECT message_extend(%s, %s, 60000)", (message.id, message.token))
    clock.advance(100)
    conn.execute("SET lock_timeout TO '2s'")
    dispatch(conn)
    holder.commit()
    clock.advance(2000)
    dispatch(conn)
    assert dequeue(conn)[0] == []
    assert holder.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone() == (
        "completed",
    )


def test_an_open_dequeue_holds_its_own_messages_alone(connect: Connect) -> None:
    """Invariant 23: its channel is served meanwhile."""
    conn, consumer = connect(), connect(autocommit=False)
    FakeClock(conn)
    fill(conn, a=1)
    [message], _ = dequeue(consumer)
    fill(conn, a=1)
    assert len(drain(conn)) == 1
    consumer.commit()
    assert drain(conn) == []
    assert conn.execute("SELECT id FROM message").fetchall() == [(message.id,)]


@pytest.mark.parametrize("backlog", [0, 300])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_dequeue_left_open_is_passed_by_and_not_forgotten(connect: Connect, end: str, backlog: int) -> None:
    """Invariants 13 and 23; virtual time and the floor of ready move on."""
    conn, consumer = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    fill(conn, a=2, other=backlog)
    [held], _ = dequeue(consumer)
    drained = drain(conn)
    for _ in range(30):
        clock.advance(100)
        fill(conn, a=1, b=1)
        drained += drain(conn)
        audit(conn)
    assert len(drained) == 61 + backlog
    row = conn.execute("SELECT (lanes[1]).floor = (lanes[1]).v FROM tick").fetchone()
    assert row == (True,), "the floor moves on"
    assert conn.execute("SELECT id FROM ready_locked").fetchall() == [(held.id,)]
    getattr(consumer, end)()
    clock.advance(1000)
    check(conn)
    assert [message.id for message in drain(conn)] == ([] if end == "commit" else [held.id])
    clock.advance(1000)
    check(conn)
    assert conn.execute("SELECT FROM ready_locked").fetchall() == []


def test_a_lease_whose_end_was_passed_before_it_was_committed(connect: Connect) -> None:
    """Invariant 1: the sweep comes back for it."""
    conn, slow, other = connect(), connect(autocommit=False), connect()
    clock = FakeClock(conn)
    fill(conn, a=1, b=1)
    [message], _ = dequeue(slow, 1, 50)
    clock.advance(5000)
    assert len(drain(other)) == 1
    slow.commit()
    clock.advance(10)
    assert [again.id for again in drain(other)] == [message.id]


def test_a_dispatch_without_the_lock_does_not_wait(connect: Connect) -> None:
    conn, dispatcher = connect(), connect(autocommit=False)
    fill(conn, a=3)
    conn.execute("SELECT message_create('b', '')")
    dispatcher.execute("SELECT dispatch()")
    conn.execute("SET lock_timeout TO '1s'")
    conn.execute("SELECT message_create('c', '')")
    assert conn.execute("SELECT dispatch()").fetchone() == (True,)
    assert [message.channel for message in dequeue(conn, 10)[0]] == ["a", "a", "a"]
    dispatcher.rollback()
    assert {message.channel for message in drain(conn)} == {"b", "c"}


@pytest.mark.parametrize(
    ("history", "attempts", "commit", "dead"),
    [(False, 2, "off", 0), (True, 2, "off", 0), (False, 1, "on", 1), (True, 1, "on", 1)],
)
def test_a_sweep_in_which_messages_die_commits_durably(
    conn: psycopg.Connection, history: bool, attempts: int, commit: str, dead: int
) -> None:
    """A follower may have read of the death before a crash; a sweep that only returns messages may be
    lost."""
    clock = FakeClock(conn)
    conn.execute(
        "SELECT queue_set(p_history => %s, p_max_attempts => %s), message_create('a', 'x')",
        (history, attempts),
    )
    dispatch(conn)
    dequeue(conn, 1, 1000)
    clock.advance(2000)
    with conn.transaction():
        conn.execute("SET LOCAL synchronous_commit TO off")
        conn.execute("SELECT dispatch()")
        assert conn.execute("SHOW synchronous_commit").fetchone() == (commit,)
    assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (dead,)


def test_a_quiet_dispatch_does_nothing_right_after_another(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'x')")
    dispatch(conn)
    conn.execute("SELECT message_create('b', 'x')")
    clock.advance(4)
    assert conn.execute("SELECT dispatch(1000, 5)").fetchone() == (False,)
    assert conn.execute("SELECT COUNT(*) FROM ready").fetchone() == (1,)
    clock.advance(1)
    conn.execute("SELECT dispatch(1000, 5)")
    assert conn.execute("SELECT COUNT(*) FROM ready").fetchone() == (2,)
