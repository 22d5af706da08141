"""Single cases of turns between channels that random calls seldom reach."""

from collections import Counter

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, dequeue, dispatch

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def clock(connect: Connect) -> FakeClock:
    return FakeClock(connect())


def create(conn: psycopg.Connection, channel: str, content: bytes, dequeue_at: int | None = None) -> None:
    conn.execute("SELECT message_create(%s, %s, %s)", (channel, content, dequeue_at))


def take(conn: psycopg.Connection, limit: int = 10, lease_ms: int = DAY_MS) -> list[Delivery]:
    dispatch(conn)
    return dequeue(conn, limit, lease_ms)[0]


def complete(conn: psycopg.Connection, message: Delivery) -> None:
    conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))


@pytest.mark.parametrize("limit", [3, 5, 6, 7, 10])
def test_channels_take_turns_over_odd_dequeues(
    conn: psycopg.Connection, clock: FakeClock, limit: int
) -> None:
    """Invariant 12, over many calls."""
    for _ in range(100):
        for channel in "abcd":
            create(conn, channel, b"")
    served: Counter[str] = Counter()
    for _ in range(20):
        served.update(message.channel for message in take(conn, limit))
        clock.advance(1)
        assert max(served.values()) - min(served[channel] for channel in "abcd") <= 1, (
            f"invariant 12: {served}"
        )


def test_unused_shares_go_to_the_channels_that_got_least(conn: psycopg.Connection, clock: FakeClock) -> None:
    for channel, count in {"a": 1, "b": 10, "c": 10}.items():
        for _ in range(count):
            create(conn, channel, b"")
    served = Counter(message.channel for message in take(conn, limit=5))
    assert served == {"a": 1, "b": 2, "c": 2}, "invariant 12"


def test_a_channel_catches_up_after_a_change_of_its_policy(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    """Invariant 21: a dequeue skips it until the next dispatch, and it loses no turn by that."""
    for channel in "ab" * 10:
        create(conn, channel, b"")
    dispatch(conn)
    conn.execute("SELECT channel_set('b')")
    served = Counter(message.channel for message in dequeue(conn, 5, DAY_MS)[0])
    assert served == {"a": 5}
    served.update(message.channel for message in take(conn, limit=5))
    assert served == {"a": 5, "b": 5}


def test_a_channel_that_was_full_serves_newcomers_before_its_scheduled_message(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    """Invariant 13: its slot came free while only something scheduled was waiting."""
    conn.execute("SELECT channel_set('a', 1)")
    create(conn, "a", b"now")
    create(conn, "a", b"in an hour", clock.at + HOUR_MS)
    (first,) = take(conn, lease_ms=1000)
    complete(conn, first)
    dispatch(conn)
    create(conn, "a", b"new")
    assert [message.content for message in take(conn)] == [b"new"], "invariant 13"


def test_a_lease_older_than_the_limit_frees_its_slot_within_a_second(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    """Invariant 13: the other waiting message is scheduled, which is no reason to stop looking."""
    create(conn, "a", b"first")
    (first,) = take(conn)
    conn.execute("SELECT channel_set('a', 2)")
    create(conn, "a", b"second")
    create(conn, "a", b"in an hour", clock.at + HOUR_MS)
    assert [message.content for message in take(conn)] == [b"second"]
    create(conn, "a", b"new")
    assert not take(conn), "invariant 7"
    complete(conn, first)
    clock.advance(1000)
    assert [message.content for message in take(conn)] == [b"new"], "invariant 13"


def test_a_rebuild_does_not_count_as_a_release(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Invariant 13: a channel that never released anything has no interval to wait for."""
    conn.execute("SELECT channel_set('a', p_release_interval_us => 60000000)")
    create(conn, "a", b"first")
    dispatch(conn)
    conn.execute("SELECT rebuild()")
    assert [message.content for message in take(conn)] == [b"first"], "invariant 13"


@pytest.mark.parametrize("pause_ms", [0, 1])
def test_channels_take_turns(conn: psycopg.Connection, clock: FakeClock, pause_ms: int) -> None:
    """Invariant 12: also within one millisecond, when two turns have the same time."""
    for _ in range(5):
        for channel in "abcd":
            create(conn, channel, b"")
    turns = []
    for _ in range(20):
        turns += [message.channel for message in take(conn, limit=1)]
        clock.advance(pause_ms)
    for round_ in range(5):
        assert set(turns[4 * round_ : 4 * round_ + 4]) == set("abcd"), f"invariant 12: {turns}"


def test_a_channel_that_sends_one_at_a_time_gets_its_share(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    """Invariant 21: a channel that sends one message at a time, beside ten with a backlog, gets no more
    than its share, and at least half of it.
    """
    for number in range(10):
        for _ in range(100):
            create(conn, f"backlog {number}", b"")
    served: Counter[str] = Counter()
    for _ in range(400):
        if not served["waiting"]:
            create(conn, "single", b"")
            served["waiting"] = 1
        for message in take(conn, limit=1):
            served[message.channel] += 1
            if message.channel == "single":
                served["waiting"] = 0
    assert 400 / 11 / 2 - 1 <= served["single"] <= 400 / 11 + 1, served


def test_newcomers_do_not_starve_a_backlog(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Invariant 21: each call brings another new channel."""
    for _ in range(300):
        create(conn, "backlog", b"")
    served: Counter[bool] = Counter()
    for number in range(200):
        create(conn, f"new {number}", b"")
        served.update(message.channel == "backlog" for message in take(conn, limit=2))
    assert served[True] >= 190, served


def test_a_backlog_does_not_delay_newcomers(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Invariant 13: however full ready is, a newcomer is served after at most two others."""
    for _ in range(3000):
        create(conn, "backlog", b"")
    take(conn, limit=1000)
    for number in range(5):
        create(conn, f"new {number}", b"")
        assert f"new {number}" in [message.channel for message in take(conn, limit=3)]
