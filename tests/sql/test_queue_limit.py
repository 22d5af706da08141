"""A concurrency limit over all channels, and a pause of the whole queue."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import check, dequeue, dispatch
from tests.sql.test_channel import end_lease, finish
from tests.sql.test_dequeue import fill


def limit(conn: psycopg.Connection, most: int) -> None:
    conn.execute("SELECT queue_set(p_max_concurrency => %s)", (most,))
    dispatch(conn)


def test_no_more_run_than_the_limit_over_all_channels(conn: psycopg.Connection) -> None:
    limit(conn, 3)
    fill(conn, a=5, b=5, c=5)
    first, again_at = dequeue(conn, 2)
    second, soon = dequeue(conn, 10)
    assert (len(first), len(second)) == (2, 1)
    assert (again_at, soon is not None) == (None, True)
    assert dequeue(conn, 10)[0] == []
    finish(conn, first[0])
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 1
    check(conn)


def test_channels_still_take_turns_under_it(conn: psycopg.Connection) -> None:
    FakeClock(conn)
    limit(conn, 1)
    fill(conn, noisy=50, quiet=3)
    served = []
    for _ in range(6):
        [message], _ = dequeue(conn, 5)
        served.append(message.channel)
        finish(conn, message)
        dispatch(conn)
    assert sorted(served) == ["noisy"] * 3 + ["quiet"] * 3


def test_a_new_channel_with_each_call_does_not_pass_those_that_wait(conn: psycopg.Connection) -> None:
    """While all slots are used, everything in ready may be served. A slot that becomes free goes to the
    backlogs again."""
    limit(conn, 1)
    fill(conn, a=5, b=5, c=5, d=5)
    served = []
    for number in range(4):
        [message], _ = dequeue(conn, 1)
        served.append(message.channel)
        finish(conn, message)
        fill(conn, **{f"new{number}": 1})  # one dispatch for both
    assert sorted(served) == ["a", "b", "c", "d"]
    check(conn)


@pytest.mark.parametrize("end", ["release", "fail", "expire", "die"])
def test_every_end_of_a_lease_frees_its_slot(conn: psycopg.Connection, end: str) -> None:
    clock = FakeClock(conn)
    limit(conn, 1)
    conn.execute("SELECT message_create('a', '', NULL, NULL, %s)", (1 if end == "die" else 5,))
    fill(conn, a=1)
    [message], _ = dequeue(conn, 1, 1000)
    assert dequeue(conn)[0] == []
    end_lease(conn, clock, message, end)
    dispatch(conn)
    assert len(dequeue(conn, 5)[0]) == 1
    check(conn)


def test_a_message_leased_again_takes_one_slot(conn: psycopg.Connection) -> None:
    """Its old slot is free although the message is leased, because it is leased under another token."""
    limit(conn, 2)
    fill(conn, a=2)
    for _ in range(20):
        messages, _ = dequeue(conn, 2)
        assert len(messages) == 2
        for message in messages:
            conn.execute("SELECT message_retry(%s, %s)", (message.id, message.token))
        dispatch(conn)


def test_a_new_limit_counts_what_runs(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    fill(conn, a=10)
    running, _ = dequeue(conn, 5)
    limit(conn, 3)
    for message in running[:3]:
        assert dequeue(conn, 5)[0] == []
        finish(conn, message)  # leased before the limit, so there is no notice when these free their slots
    clock.advance(1000)
    dispatch(conn)
    assert len(dequeue(conn, 5)[0]) == 1
    check(conn)


def test_lowering_raising_and_lifting_the_limit(conn: psycopg.Connection) -> None:
    limit(conn, 5)
    fill(conn, a=20)
    running, _ = dequeue(conn, 10)
    assert len(running) == 5
    limit(conn, 2)
    for message in running[:4]:
        assert dequeue(conn, 10)[0] == []
        finish(conn, message)
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 1
    limit(conn, 4)
    assert len(dequeue(conn, 10)[0]) == 2
    limit(conn, 0)
    assert len(dequeue(conn, 3)[0]) == 3
    limit(conn, 8)
    assert len(dequeue(conn, 10)[0]) == 1


def test_a_dequeue_left_open_holds_its_slots_and_no_others(connect: Connect) -> None:
    conn, other = connect(), connect(autocommit=False)
    limit(conn, 5)
    fill(conn, **{f"c{n}": 1 for n in range(10)})
    assert len(dequeue(other, 2)[0]) == 2
    conn.execute("SET lock_timeout TO '1s'")
    assert len(dequeue(conn, 10)[0]) == 3
    other.rollback()
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 2


def test_a_paused_queue_serves_nothing(conn: psycopg.Connection) -> None:
    fill(conn, a=1)
    conn.execute("SELECT queue_set(p_paused => TRUE)")
    messages, again_at = dequeue(conn)
    assert (messages, again_at is not None) == ([], True)
    conn.execute("SELECT queue_set(p_paused => FALSE)")
    dispatch(conn)
    assert len(dequeue(conn)[0]) == 1


def test_the_default_lease_is_the_queues(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT queue_set(p_lease_ms => 1234)")
    fill(conn, a=1)
    row = conn.execute("SELECT lease_end_at FROM message_dequeue()").fetchone()
    assert row == (clock.at + 1234,)


@pytest.mark.parametrize("reason", ["a limit over all channels", "history"])
def test_dequeues_with_a_limit_or_a_history_commit_durably(conn: psycopg.Connection, reason: str) -> None:
    fill(conn, a=2)
    with conn.transaction():
        conn.execute("SET LOCAL synchronous_commit TO off")
        dequeue(conn)
        assert conn.execute("SHOW synchronous_commit").fetchone() == ("off",)
    conn.execute(
        "SELECT queue_set(p_history => TRUE)"
        if reason == "history"
        else "SELECT queue_set(p_max_concurrency => 9)"
    )
    dispatch(conn)
    with conn.transaction():
        conn.execute("SET LOCAL synchronous_commit TO off")
        dequeue(conn)
        assert conn.execute("SHOW synchronous_commit").fetchone() == ("on",)
