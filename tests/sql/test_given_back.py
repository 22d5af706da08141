"""Turns and entries that a rollback gives back, and slots that become free without a notice."""

from collections import Counter

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch


def create(conn: psycopg.Connection, channels: list[str]) -> None:
    conn.execute("SELECT COUNT(*) FROM message_create_many(%s, %s)", (channels, [b""] * len(channels)))


def complete(conn: psycopg.Connection, messages: list[Delivery]) -> None:
    call = "SELECT COUNT(*) FROM message_complete_many(%s, %s)"
    conn.execute(call, ([message.id for message in messages], [message.token for message in messages]))


def test_everybody_has_a_turn_whoever_rolls_back(connect: Connect) -> None:
    conn, other = connect(), connect(autocommit=False)
    channels = [f"c{number}" for number in range(10)]
    create(conn, sorted(channels * 40))
    served: Counter[str] = Counter()
    dispatch(conn)
    for _ in range(50):
        assert dequeue(other, 30)[0]
        other.rollback()
        dispatch(conn)
        messages, _ = dequeue(conn, 2)
        served.update(message.channel for message in messages)
        complete(conn, messages)
    assert all(8 <= served[channel] <= 12 for channel in channels), served
    check(conn)


def test_a_channel_gets_back_the_turns_it_lost_and_no_others(connect: Connect) -> None:
    """While one dequeue is open, other dequeues serve the messages behind it. These turns are used up."""
    conn, other = connect(), connect(autocommit=False)
    create(conn, ["a", "b"] * 1500)
    served: Counter[str] = Counter()
    dispatch(conn)
    for _ in range(20):
        assert len(dequeue(other, 1)[0]) == 1
        messages, _ = dequeue(conn, 50)
        served.update(message.channel for message in messages)
        other.rollback()
        dispatch(conn)
    assert abs(served["a"] - served["b"]) <= 2, served
    check(conn)


def test_a_channel_saves_up_no_turns_while_its_message_is_given_back(connect: Connect) -> None:
    """The channel gets the turn of that message back, but no turns of others for messages to come."""
    conn, other = connect(), connect(autocommit=False)
    create(conn, ["a", *["b"] * 20])
    dispatch(conn)
    for _ in range(8):
        assert [message.channel for message in dequeue(other, 1)[0]] == ["a"]
        complete(conn, dequeue(conn, 1)[0])
        other.rollback()
        dispatch(conn)
    create(conn, ["a"] * 10)
    served: Counter[str] = Counter()
    for _ in range(8):
        dispatch(conn)
        messages, _ = dequeue(conn, 1)
        served.update(message.channel for message in messages)
        complete(conn, messages)
    assert served["a"] <= 5, served
    check(conn)


def test_a_channel_keeps_its_order_over_two_rollbacks(connect: Connect) -> None:
    """The second rollback gives back entries behind ones that nobody has touched."""
    conn, one, two = connect(), connect(autocommit=False), connect(autocommit=False)
    create(conn, ["a"] * 60)
    dispatch(conn)
    dequeue(one, 12)
    dequeue(two, 12)
    for each in (one, two):
        each.rollback()
        dispatch(conn)
    messages, _ = dequeue(conn, 100)
    assert [message.id for message in messages] == list(range(1, 61))


@pytest.mark.parametrize(
    ("channels", "sizes"),
    [
        (300, [5, -50, 100, 1, 1, 20, -50, -1, -1, 1, 100, -50, 50]),
        (200, [-50, -50, 50, 50, -50, 5, 50]),
    ],
)
def test_a_dequeue_gets_what_it_asks_for_after_rollbacks(
    connect: Connect, channels: int, sizes: list[int]
) -> None:
    """Entries that are given back lower the horizon, and ready is refilled up to it. -50: 50 that are
    rolled back."""
    conn, other = connect(), connect(autocommit=False)
    for _ in range(10):
        create(conn, [f"c{number}" for number in range(channels)])
    for size in sizes:
        dispatch(conn)
        check(conn)
        assert len(dequeue(conn if size > 0 else other, abs(size))[0]) == abs(size)
        other.rollback()


def test_a_dequeue_of_more_than_is_looked_ahead_now_is_rolled_back(connect: Connect) -> None:
    """It asked for many messages, and later calls for few: ready is now filled less far ahead than the
    dequeue holds."""
    conn, other = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    create(conn, ["a"] * 1_000)
    taken: list[Delivery] = []
    while len(taken) < 1_000:
        dispatch(conn)
        taken += dequeue(conn, 1_000)[0]
    complete(conn, taken)
    create(conn, ["a"] * 500)
    dispatch(conn)
    assert len(dequeue(other, 500)[0]) == 500
    for _ in range(60):
        clock.advance(30)
        create(conn, ["z"])
        dispatch(conn)
        complete(conn, dequeue(conn, 1)[0])
    other.rollback()
    clock.advance(1_100)
    back: list[Delivery] = []
    for _ in range(20):
        dispatch(conn)
        back += dequeue(conn, 100)[0]
    assert Counter(message.channel for message in back)["a"] == 500
    check(conn)


@pytest.mark.parametrize("held", [5, 10, 90])
def test_what_is_given_back_behind_an_open_dequeue(connect: Connect, held: int) -> None:
    conn, first, second = connect(), connect(autocommit=False), connect(autocommit=False)
    create(conn, ["a"] * 100)
    dispatch(conn)
    assert len(dequeue(first, held)[0]) == held
    assert len(dequeue(second, 100)[0]) == 100 - held
    second.rollback()
    got = 0
    for _ in range(5):
        dispatch(conn)
        got += len(dequeue(conn, 100)[0])
    assert got == 100 - held


def test_a_channel_hidden_by_a_new_policy_comes_back(connect: Connect) -> None:
    """An open dequeue holds an entry of it, and more policies have changed than one dispatch reads."""
    conn, holder = connect(), connect(autocommit=False)
    clock = FakeClock(conn)
    create(conn, ["x"] * 10)
    dispatch(conn)
    dequeue(holder, 1)
    names = ["x", "y", "z", "u"]
    conn.execute("SELECT COUNT(*) FROM unnest(%s::TEXT[]) c CROSS JOIN LATERAL channel_set(c, 50)", (names,))
    for _ in range(5):
        conn.execute("SELECT dispatch(1)")
        clock.advance(1_100)
    holder.rollback()
    got = 0
    for _ in range(5):
        clock.advance(1_100)
        dispatch(conn)
        got += len(dequeue(conn, 10)[0])
    assert got == 10
    check(conn)


@pytest.mark.parametrize("how", ["a limit set while they run", "a large limit"])
def test_slots_that_become_free_without_a_notice(conn: psycopg.Connection, how: str) -> None:
    """After a minute, they are still found within a second or two."""
    clock = FakeClock(conn)
    large = 300 if how == "a large limit" else 20
    if large == 300:
        conn.execute("SELECT channel_set('x', 300)")
    create(conn, ["x"] * 1_000)
    running: list[Delivery] = []
    while len(running) < large:
        dispatch(conn)
        running += dequeue(conn, large - len(running), lease_ms=600_000)[0]
    if large == 20:
        conn.execute("SELECT channel_set('x', 5)")
    for _ in range(60):
        clock.advance(1_000)
        dispatch(conn)
        assert dequeue(conn, 1)[0] == []
    complete(conn, running[: 150 if large == 300 else 20])
    clock.advance(1_100)
    dispatch(conn)
    assert dequeue(conn, 1)[0]


def test_an_interval_is_kept_behind_many_notices(conn: psycopg.Connection) -> None:
    """The notice that a message was taken comes after more notices than one dispatch reads."""
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('x', p_release_interval_us => 3000000)")
    create(conn, ["x"] * 10)
    dispatch(conn)
    conn.execute("SELECT message_cancel(10)")
    for _ in range(40):
        conn.execute("SELECT message_create('y', '')")
    begin = clock.at
    times: list[int] = []
    for _ in range(500):
        for message in dequeue(conn, 50)[0]:
            if message.channel == "x":
                times.append(clock.at - begin)
                complete(conn, [message])
        clock.advance(10)
        conn.execute("SELECT dispatch(5)")
    assert times[0] == 0
    assert times[1] >= 3_000


def test_a_transaction_that_began_after_a_snapshot_counts_as_open(connect: Connect) -> None:
    """So a dispatch does not search for returned entries where dequeues took them meanwhile."""

    def number(conn: psycopg.Connection) -> str:
        row = conn.execute("SELECT pg_current_xact_id()::XID::TEXT").fetchone()
        assert row is not None
        return str(row[0])

    conn, other = connect(), connect(autocommit=False)
    ended, still_open = number(conn), number(other)
    row = conn.execute("SELECT pg_current_snapshot()::TEXT").fetchone()
    assert row is not None
    began_later = number(conn)
    found = [
        conn.execute("SELECT transaction_was_open(%s::TEXT::XID, %s::PG_SNAPSHOT)", (each, row[0])).fetchone()
        for each in (ended, still_open, began_later)
    ]
    assert found == [(False,), (True,), (True,)]
