"""The sweep of leases that ran out, and what a fold does when somebody holds what it needs."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.judge import Delivery, check, dequeue, drain, fold
from tests.sql.test_dequeue import fill


def leased(conn: psycopg.Connection, lease_ms: int, **channels: int) -> list[Delivery]:
    fill(conn, **channels)
    messages, _ = dequeue(conn, sum(channels.values()), lease_ms)
    assert len(messages) == sum(channels.values())
    return messages


def test_leases_that_somebody_holds_are_stepped_over(connect: Connect) -> None:
    """Invariant 13: a finisher that is slow to commit hides nobody's expired leases but its own."""
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


def test_what_a_finisher_held_and_finished_is_not_looked_for_any_longer(connect: Connect) -> None:
    conn, finisher = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    [message] = leased(conn, 100, a=1)
    finisher.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    clock.advance(100)
    fold(conn)
    assert conn.execute("SELECT key FROM postponed").fetchall() == [(f"m{message.id}",)]
    finisher.commit()
    clock.advance(2000)
    assert drain(conn) == []
    assert conn.execute("SELECT COUNT(*) FROM postponed").fetchone() == (0,)


def test_a_lease_extended_while_the_sweep_looked_is_left_alone(connect: Connect) -> None:
    """Invariants 4 and 5: the lease's end is looked at again under the message's lock."""
    conn, holder = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    [message] = leased(conn, 100, a=1)
    holder.execute("SELECT message_extend(%s, %s, 60000)", (message.id, message.token))
    clock.advance(100)
    fold(conn)
    holder.commit()
    clock.advance(2000)
    fold(conn)
    assert dequeue(conn)[0] == []
    assert holder.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone() == (
        "completed",
    )


def test_a_wake_for_a_channel_that_a_consumer_holds_is_kept(connect: Connect) -> None:
    """Invariant 8: the consumer may have looked before the message was there."""
    conn, consumer = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    fill(conn, a=1)
    [message], _ = dequeue(consumer)
    fill(conn, a=1)
    assert dequeue(conn)[0] == []
    consumer.commit()
    clock.advance(10)
    assert len(drain(conn)) == 1
    assert conn.execute("SELECT COUNT(*) FROM postponed").fetchone() == (0,)
    assert conn.execute("SELECT id FROM message").fetchall() == [(message.id,)]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_channel_held_for_long_is_written_once_and_not_forgotten(connect: Connect, end: str) -> None:
    """Invariants 8 and 13; and the ring's floor rises over the row that is held."""
    conn, consumer = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    fill(conn, a=2)
    dequeue(consumer)
    for _ in range(30):
        clock.advance(100)
        fill(conn, a=1, b=1)
        assert [message.channel for message in drain(conn)] == ["b"]
    assert conn.execute("SELECT COUNT(*) FROM postponed").fetchone() == (1,)
    row = conn.execute("SELECT at - floor_at FROM tick").fetchone()
    assert row is not None
    assert row[0] <= 1000, "the floor stays near the clock"
    getattr(consumer, end)()
    clock.advance(1000)
    check(conn)
    assert len(drain(conn)) == (31 if end == "commit" else 32)


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


def test_who_does_not_get_the_fold_lock_goes_on(connect: Connect) -> None:
    conn, folder = connect(), connect(autocommit=False)
    fill(conn, a=3)
    conn.execute("SELECT message_create('b', '')")
    folder.execute("SELECT dispatch()")
    conn.execute("SET lock_timeout TO '1s'")
    conn.execute("SELECT message_create('c', '')")
    assert conn.execute("SELECT dispatch()").fetchone() == (True,)
    assert [message.channel for message in dequeue(conn, 10)[0]] == ["a", "a", "a"]
    folder.rollback()
    assert {message.channel for message in drain(conn)} == {"b", "c"}


@pytest.mark.parametrize(
    ("history", "attempts", "commit", "dead"),
    [(False, 2, "off", 0), (True, 2, "off", 0), (False, 1, "on", 1), (True, 1, "on", 1)],
)
def test_a_sweep_in_which_messages_die_commits_durably(
    conn: psycopg.Connection, history: bool, attempts: int, commit: str, dead: int
) -> None:
    """A follower may have read of it before a crash; a sweep that only gives messages back may be lost."""
    clock = FakeClock(conn)
    conn.execute(
        "SELECT queue_set(p_history => %s, p_max_attempts => %s), message_create('a', 'x')",
        (history, attempts),
    )
    fold(conn)
    dequeue(conn, 1, 1000)
    clock.advance(2000)
    with conn.transaction():
        conn.execute("SET LOCAL synchronous_commit TO off")
        conn.execute("SELECT dispatch()")
        assert conn.execute("SHOW synchronous_commit").fetchone() == (commit,)
    assert conn.execute("SELECT COUNT(*) FROM dead").fetchone() == (dead,)


def test_a_quiet_fold_leaves_it_to_who_folded_just_before(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT message_create('a', 'x')")
    fold(conn)
    conn.execute("SELECT message_create('b', 'x')")
    clock.advance(4)
    assert conn.execute("SELECT dispatch(1000, 5)").fetchone() == (False,)
    assert conn.execute("SELECT COUNT(*) FROM ring").fetchone() == (1,)
    clock.advance(1)
    conn.execute("SELECT dispatch(1000, 5)")
    assert conn.execute("SELECT COUNT(*) FROM ring").fetchone() == (2,)
