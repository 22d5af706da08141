"""What channel_explain reads does not depend on how many messages wait, finished, or are due later."""

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import drain
from tests.plans.buffers import Meter
from tests.plans.states import FAR, create, dispatch_in_bulk, loaded, make_indexes_tall

REASONS = {
    "waits 1": "turn",
    "full 1": "concurrency",
    "slow 1": "rate",
    "later 1": "scheduled",
    "paused 1": "paused",
}


def costs(conn: psycopg.Connection) -> dict[str, int]:
    meter = Meter(conn)
    for _ in range(4):
        for channel, reason in REASONS.items():
            rows = meter.count(channel, f"channel_explain('{channel}')")
            assert {row["reason"] for row in rows} <= {reason, "next", "no consumer"}, rows
    return {name: min(counts) for name, counts in meter.counted.items()}


def fill(conn: psycopg.Connection, messages: int) -> None:
    for channel in REASONS:
        is_later = channel.startswith("later")
        create(conn, messages, 1, channel.removesuffix("1"), FAR if is_later else None)
    dispatch_in_bulk(conn)


@loaded
@pytest.mark.slow
def test_an_explanation_does_not_read_the_backlog(connect: Connect, load: float) -> None:
    conn, holder = connect(), connect()
    make_indexes_tall(conn, load)
    conn.execute("SELECT channel_set('full 1', 2), channel_set('paused 1', p_paused => TRUE)")
    conn.execute("SELECT channel_set('slow 1', p_release_interval_us => 86400000000)")
    create(conn, 5_000, 1_000, "other ")
    fill(conn, 1_000)
    conn.execute("SELECT message_dequeue(3000, 80000000)")
    dispatch_in_bulk(conn)
    before = costs(conn)
    fill(conn, int(200_000 * load))
    after = costs(conn)
    assert all(after[name] <= 1.2 * before[name] + 50 for name in before), (before, after)
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    holder.execute("SELECT COUNT(*) FROM tick")
    drain(conn, limit=1000)
    create(conn, 5_000, 1_000, "other ")
    fill(conn, 1_000)
    after = costs(conn)
    assert all(after[name] <= 1.2 * before[name] + 50 for name in before), (before, after)
