"""What message_place reads does not depend on how many messages wait, or have finished."""

import psycopg
import pytest

from tests.database import Connect
from tests.plans.buffers import Meter
from tests.plans.states import FAR, create, dispatch_in_bulk, loaded, make_indexes_tall

FINISH = """
    SELECT COUNT(*) FROM (SELECT array_agg(d.id) AS ids, array_agg(d.token) AS tokens
        FROM message_dequeue(1000) d WHERE d.id IS NOT NULL) d
    CROSS JOIN LATERAL message_complete_many(d.ids, d.tokens)"""


def costs(conn: psycopg.Connection) -> dict[str, int]:
    """Of the last message of each channel."""
    meter = Meter(conn)
    for _ in range(4):
        for channel in ("waits 1", "full 1", "later 1"):
            [message_id] = (
                conn.execute("SELECT MAX(id) FROM message WHERE channel = %s", (channel,)).fetchone() or ()
            )
            [row] = meter.count(channel, f"message_place({message_id})")
            expected = (None, False) if channel == "later 1" else (1000, True)
            assert (row["place"], row["is_capped"]) == expected
    return {name: min(counts) for name, counts in meter.counted.items()}


def fill(conn: psycopg.Connection, messages: int) -> None:
    create(conn, messages, 1, "waits ")
    create(conn, messages, 1, "full ")
    create(conn, messages, 1, "later ", FAR)
    dispatch_in_bulk(conn)


@loaded
@pytest.mark.slow
def test_a_place_does_not_read_the_backlog(connect: Connect, load: float) -> None:
    conn, holder = connect(), connect()
    make_indexes_tall(conn, load)
    conn.execute("SELECT channel_set('full 1', 2)")
    fill(conn, 2_000)
    before = costs(conn)
    fill(conn, int(200_000 * load))
    after = costs(conn)
    assert all(after[name] <= 1.2 * before[name] + 50 for name in before), (before, after)
    assert after["later 1"] <= 100
    assert max(after.values()) <= 10_000, "it reads about a thousand messages"
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    holder.execute("SELECT COUNT(*) FROM tick")
    for _ in range(3):  # their rows cannot be removed yet
        conn.execute(FINISH)
        dispatch_in_bulk(conn)
    held = costs(conn)
    assert all(held[name] <= 1.5 * before[name] + 100 for name in before), (before, held)
