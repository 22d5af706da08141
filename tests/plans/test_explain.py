"""What channel_explain reads does not depend on how many messages wait, are due later, or have finished."""

import psycopg
import pytest

from tests.database import Connect
from tests.plans.buffers import Meter
from tests.plans.states import FAR, create, dispatch_in_bulk, loaded, make_indexes_tall

LIMITED = {"full 1": "concurrency", "slow 1": "rate", "paused 1": "paused"}
LATER, WAITING = {"later 1": "scheduled"}, {"waits 1": "turn"}


def costs(conn: psycopg.Connection, reasons: dict[str, str]) -> dict[str, int]:
    meter = Meter(conn)
    for _ in range(4):
        for channel, reason in reasons.items():
            [row] = meter.count(channel, f"channel_explain('{channel}')")
            # It says "no consumer" where filling took longer than consumers may be away.
            assert row["reason"] in {reason, "no consumer" if reason == "turn" else reason}
    return {name: min(counts) for name, counts in meter.counted.items()}


def fill(conn: psycopg.Connection, messages: int, *channels: str) -> None:
    for channel in channels:
        create(conn, messages, 1, channel.removesuffix("1"), FAR if channel in LATER else None)
    dispatch_in_bulk(conn)


def fill_others(conn: psycopg.Connection) -> None:
    """They are ahead of what comes later."""
    create(conn, 3_000, 1_000, "other ")
    dispatch_in_bulk(conn)


def finish_all(conn: psycopg.Connection) -> None:
    finish = """
        SELECT COUNT(*) FROM (SELECT array_agg(d.id) AS ids, array_agg(d.token) AS tokens
            FROM message_dequeue(1000) d WHERE d.id IS NOT NULL HAVING COUNT(*) > 0) d
        CROSS JOIN LATERAL message_complete_many(d.ids, d.tokens)"""
    while conn.execute(finish).fetchone() != (0,):
        dispatch_in_bulk(conn)


@loaded
@pytest.mark.slow
def test_an_explanation_does_not_read_the_backlog(connect: Connect, load: float) -> None:
    conn, holder = connect(), connect()
    make_indexes_tall(conn, load)
    conn.execute("SELECT channel_set('full 1', 2), channel_set('paused 1', p_paused => TRUE)")
    conn.execute("SELECT channel_set('slow 1', p_release_interval_us => 86400000000)")
    fill(conn, 1_000, *LIMITED, *LATER)
    conn.execute("SELECT message_dequeue(3, 80000000)")
    fill_others(conn)
    fill(conn, 1_000, *WAITING)
    before = costs(conn, LIMITED | LATER | WAITING)

    fill(conn, int(200_000 * load), *LIMITED, *LATER, *WAITING)
    after = costs(conn, LIMITED | LATER | WAITING)
    assert all(after[name] <= 1.2 * before[name] + 50 for name in before), (before, after)

    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    holder.execute("SELECT COUNT(*) FROM tick")
    finish_all(conn)
    fill_others(conn)
    fill(conn, 1_000, *WAITING, "fresh 1")
    compare_with_a_fresh_channel(conn, "turn")
    for channel in (*WAITING, "fresh 1"):
        conn.execute("SELECT channel_set(%s, p_paused => TRUE)", (channel,))
    dispatch_in_bulk(conn)
    compare_with_a_fresh_channel(conn, "paused")


def compare_with_a_fresh_channel(conn: psycopg.Connection, reason: str) -> None:
    """Of the other channel, many messages have finished, and their rows cannot be removed yet."""
    old, fresh = costs(conn, {"waits 1": reason, "fresh 1": reason}).values()
    assert old <= 1.2 * fresh + 10, f"{old} buffers, and {fresh} for a fresh channel"
    assert fresh <= 150
