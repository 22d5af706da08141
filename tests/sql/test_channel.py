"""channel_set and channel_get, and the limits they set."""

from decimal import Decimal

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch, drain
from tests.sql.test_dequeue import fill


def end_lease(conn: psycopg.Connection, clock: FakeClock, message: Delivery, end: str) -> None:
    """End the lease, which is of 1,000 ms, in the given way; dispatch afterwards."""
    if end == "expire":
        clock.advance(1000)
    else:
        error = None if end == "release" else "e"
        conn.execute("SELECT message_retry(%s, %s, NULL, NULL, %s)", (message.id, message.token, error))


def finish(conn: psycopg.Connection, *messages: Delivery) -> None:
    for message in messages:
        done = conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone()
        assert done == ("completed",)


def test_a_channel_without_a_policy_has_no_limits(conn: psycopg.Connection) -> None:
    row = conn.execute("SELECT * FROM channel_get('never heard of')").fetchone()
    assert row == ("never heard of", None, None, 1, False, None, 1, [])


def test_omitted_options_keep_their_value_and_zero_lifts_a_limit(conn: psycopg.Connection) -> None:
    for arguments, expected in (
        ("'a', 3", ("a", 3, None, 1, False, None, 1, [])),
        ("'a', p_paused => TRUE", ("a", 3, None, 1, True, None, 1, [])),
        ("'a', p_release_interval_us => 50000", ("a", 3, 50000, 1, True, None, 1, [])),
        ("'a', p_burst => 9", ("a", 3, 50000, 9, True, None, 1, [])),
        ("'a', p_max_size => 7", ("a", 3, 50000, 9, True, 7, 1, [])),
        ("'a', p_weight => 2.5", ("a", 3, 50000, 9, True, 7, Decimal("2.5"), [])),
        ("'a', 0, 0, 1, FALSE, 0, 1", ("a", None, None, 1, False, None, 1, [])),
    ):
        assert conn.execute(f"SELECT * FROM channel_set({arguments})").fetchone() == expected
    assert conn.execute("SELECT * FROM channel_get('a')").fetchone() == expected


def test_max_concurrency_holds_and_a_freed_slot_is_filled(conn: psycopg.Connection) -> None:
    """Invariants 7 and 13."""
    FakeClock(conn)
    conn.execute("SELECT channel_set('a', 2)")
    fill(conn, a=5, b=1)
    messages, _ = dequeue(conn, 10)
    assert sorted(message.channel for message in messages) == ["a", "a", "b"]
    dispatch(conn)
    assert dequeue(conn, 10)[0] == []
    finish(conn, next(message for message in messages if message.channel == "a"))
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 1
    check(conn)


def test_one_by_one_up_to_the_limit(conn: psycopg.Connection) -> None:
    """Invariants 7 and 13, one message per call."""
    FakeClock(conn)
    conn.execute("SELECT channel_set('a', 3)")
    fill(conn, a=9)
    messages = [message for _ in range(5) for message in dequeue(conn)[0]]
    assert len(messages) == 3
    finish(conn, messages[1])
    dispatch(conn)
    assert [len(dequeue(conn)[0]) for _ in range(2)] == [1, 0]
    check(conn)


@pytest.mark.parametrize("end", ["release", "fail", "expire", "die"])
def test_every_end_of_a_lease_frees_its_slot(conn: psycopg.Connection, end: str) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('a', 1)")
    conn.execute("SELECT message_create('a', '', NULL, NULL, %s)", (1 if end == "die" else 5,))
    fill(conn, a=1)
    [message], _ = dequeue(conn, 1, 1000)
    assert dequeue(conn)[0] == []
    end_lease(conn, clock, message, end)
    dispatch(conn)
    assert len(dequeue(conn, 5)[0]) == 1
    check(conn)


def test_many_turns_under_a_limit_do_not_use_it_up(conn: psycopg.Connection) -> None:
    """Invariant 7: finished messages are removed from the list of slots, so a limit neither leaks nor
    drifts."""
    FakeClock(conn)
    conn.execute("SELECT channel_set('a', 3)")
    fill(conn, a=40)
    for _ in range(20):
        dispatch(conn)
        messages, _ = dequeue(conn, 2)
        assert len(messages) == 2
        finish(conn, *messages)
    check(conn)


def test_a_new_limit_counts_what_already_runs(conn: psycopg.Connection) -> None:
    """Invariant 7."""
    clock = FakeClock(conn)
    fill(conn, a=6)
    running, _ = dequeue(conn, 3)
    conn.execute("SELECT channel_set('a', 4)")
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 1
    finish(conn, *running[:2])  # leased before the limit, so there is no notice when these free their slots
    clock.advance(1000)
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 2
    check(conn)


def test_a_raised_limit_takes_effect_at_once_and_a_lowered_one_waits(conn: psycopg.Connection) -> None:
    FakeClock(conn)
    conn.execute("SELECT channel_set('a', 1)")
    fill(conn, a=9)
    first, _ = dequeue(conn, 9)
    conn.execute("SELECT channel_set('a', 3)")
    dispatch(conn)
    second, _ = dequeue(conn, 9)
    assert [len(first), len(second)] == [1, 2]
    conn.execute("SELECT channel_set('a', 1)")
    for message in first + second:
        dispatch(conn)
        assert dequeue(conn, 9)[0] == []
        finish(conn, message)
    dispatch(conn)
    assert len(dequeue(conn, 9)[0]) == 1
    conn.execute("SELECT channel_set('a', 0)")
    dispatch(conn)
    assert len(dequeue(conn, 9)[0]) == 5


def test_the_interval_keeps_releases_apart(conn: psycopg.Connection) -> None:
    """Invariant 10: for every batch size, also if the channel was empty in between."""
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('a', NULL, 100000)")
    fill(conn, a=2, b=3)
    assert sorted(message.channel for message in dequeue(conn, 10)[0]) == ["a", "b", "b", "b"]
    clock.advance(90)
    dispatch(conn)
    assert dequeue(conn, 10) == ([], clock.at + 10)
    clock.advance(10)
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 1
    clock.advance(50)
    fill(conn, a=1)
    assert dequeue(conn, 10)[0] == [], "the channel was empty, but its last release still counts"
    clock.advance(50)
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 1


def test_redeliveries_keep_the_interval_too(conn: psycopg.Connection) -> None:
    """Invariant 10."""
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('a', NULL, 1000000)")
    fill(conn, a=1)
    [message], _ = dequeue(conn, 1, 400)
    clock.advance(400)
    dispatch(conn)
    assert dequeue(conn)[0] == []
    clock.advance(600)
    dispatch(conn)
    assert [again.id for again in dequeue(conn)[0]] == [message.id]


@pytest.mark.parametrize(
    "change",
    [
        "channel_set('a', p_weight => 2)",
        "channel_set('a', p_max_size => 1000)",
        "queue_set(p_max_concurrency => 100)",
    ],
)
def test_an_interval_is_kept_when_settings_change_during_an_open_dequeue(
    connect: Connect, change: str
) -> None:
    """The messages of the open dequeue count as released, although the queue cannot know yet when."""
    conn, other = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('a', p_release_interval_us => 3000000)")
    fill(conn, a=5)
    assert len(dequeue(other, 1)[0]) == 1
    clock.advance(1)
    conn.execute(f"SELECT {change}")
    dispatch(conn)
    assert dequeue(conn, 10)[0] == []
    other.commit()
    clock.advance(2998)
    dispatch(conn)
    assert dequeue(conn, 10)[0] == []
    clock.advance(1)
    dispatch(conn)
    assert len(dequeue(conn, 10)[0]) == 1
    check(conn)


def test_an_interval_that_is_set_during_an_open_dequeue_releases_one_at_a_time(connect: Connect) -> None:
    conn, other = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    fill(conn, a=5)
    assert len(dequeue(other, 1)[0]) == 1
    conn.execute("SELECT channel_set('a', p_release_interval_us => 3000000)")
    dispatch(conn)
    other.commit()
    for _ in range(3):
        clock.advance(3001)
        dispatch(conn)
        assert len(dequeue(conn, 10)[0]) == 1
    check(conn)


def test_a_limited_channel_gets_its_turn_with_one_dispatch_before_each_dequeue(
    conn: psycopg.Connection,
) -> None:
    conn.execute("SELECT channel_set('a', 1)")
    fill(conn, a=400, b=400)  # more than ready holds
    served = []
    for _ in range(20):
        conn.execute("SELECT dispatch()")
        messages, _ = dequeue(conn, 2)
        served += [message.channel for message in messages]
        finish(conn, *messages)
    assert (served.count("a"), served.count("b")) == (20, 20)


def test_a_paused_channel_does_not_stop_others(conn: psycopg.Connection) -> None:
    fill(conn, a=2, b=1)
    conn.execute("SELECT channel_set('a', p_paused => TRUE)")
    assert [message.channel for message in dequeue(conn, 5)[0]] == ["b"], (
        "it applies before the next dispatch, too"
    )
    fill(conn, a=1)
    assert drain(conn) == []
    conn.execute("SELECT channel_set('a', p_paused => FALSE)")
    assert len(drain(conn)) == 3


def test_an_uncommitted_policy_delays_nobody(connect: Connect) -> None:
    one, other = connect(autocommit=False), connect()
    one.execute("SELECT channel_set('a', 1)")
    other.execute("SET lock_timeout TO '1s'")
    other.execute("SELECT channel_set('b', 1)")
    fill(other, a=2)
    assert len(dequeue(other, 2)[0]) == 2
