"""Many channels at once: each call does a bounded amount of work, and no channel waits for all others."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import check, dequeue, dispatch

CHANNELS = [f"c{number}" for number in range(1_000)]


def create(conn: psycopg.Connection, channels: list[str]) -> None:
    conn.execute("SELECT COUNT(*) FROM message_create_many(%s, %s)", (channels, [b""] * len(channels)))


def count(conn: psycopg.Connection, table: str) -> int:
    (row,) = conn.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
    return int(row[0])


def test_backlogs_with_the_same_tag_do_not_wait_for_each_other(conn: psycopg.Connection) -> None:
    """A thousand channels have the same tag for their next message, and ready holds about a hundred
    entries."""
    for _ in range(3):
        create(conn, CHANNELS)
    dispatch(conn)
    served: dict[str, int] = dict.fromkeys(CHANNELS, 0)
    for taken in range(0, 3_000, 50):
        conn.execute("SELECT dispatch()")
        messages, _ = dequeue(conn, 50)
        assert len(messages) == 50, f"after {taken}"
        for message in messages:
            served[message.channel] += 1
        assert max(served.values()) - min(served.values()) <= 2, "each channel got its turn"
    check(conn)


def test_policies_of_many_channels_change_at_once(conn: psycopg.Connection) -> None:
    """A dispatch reads as many of the changes as its limit allows. Until then nothing of the other
    channels is taken."""
    create(conn, CHANNELS)
    dispatch(conn)
    conn.execute(
        "SELECT COUNT(*) FROM unnest(%s::TEXT[]) c CROSS JOIN LATERAL channel_set(c, 1)", (CHANNELS,)
    )
    for left in range(900, -1, -100):
        assert conn.execute("SELECT dispatch(100)").fetchone() == (True,)
        assert count(conn, "policy_change") == left
    dispatch(conn)
    create(conn, CHANNELS)
    taken: list[str] = []
    while messages := dequeue(conn, 200)[0]:
        taken += [message.channel for message in messages]
        dispatch(conn)
    assert sorted(taken) == sorted(CHANNELS), "one message per channel runs"
    check(conn)


@pytest.mark.slow
def test_a_channel_that_stays_full_is_checked_less_and_less_often(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT channel_set('full', 1)")
    create(conn, ["full", "full"])
    dispatch(conn)
    ((first,), _) = dequeue(conn, 1, lease_ms=86_000_000)
    turn = "SELECT MAX(turn) FROM slots WHERE channel = 'full'"  # each check takes a new one
    turns = conn.execute(turn).fetchall()
    for _ in range(1_800):
        clock.advance(2_000)
        dispatch(conn)
        turns += conn.execute(turn).fetchall()
    checks = len(set(turns)) - 1
    assert 5 <= checks <= 20, "in an hour"
    # Completing it writes a notice, so nobody waits until the channel is checked again.
    conn.execute("SELECT message_complete(%s, %s)", (first.id, first.token))
    dispatch(conn)
    assert len(dequeue(conn, 1)[0]) == 1
    check(conn)
