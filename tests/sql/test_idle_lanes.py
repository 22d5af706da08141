"""A lane without consumers does not keep slots from other lanes."""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import check, dispatch

LIMITS = {
    "a channel's": "channel_set('a', p_max_concurrency => 2)",
    "the queue's": "queue_set(p_max_concurrency => 2)",
    "an interval": "channel_set('a', p_release_interval_us => 1000)",
}
STEP_MS = 100


def create(conn: psycopg.Connection, lane: str, count: int) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM message_create_many(%s, %s, p_lanes => %s)",
        (["a"] * count, [b""] * count, [lane] * count),
    )


def serve(conn: psycopg.Connection, clock: FakeClock, lanes: list[str], seconds: int) -> list[str]:
    """Every 100 ms, take and complete one message from each of these lanes. Returns their lanes."""
    served = []
    for _ in range(seconds * 1000 // STEP_MS):
        clock.advance(STEP_MS)
        for lane in lanes:
            dispatch(conn)
            taken = "SELECT id, token, lane FROM message_dequeue(1, p_lanes => %s) WHERE id IS NOT NULL"
            rows = conn.execute(taken, ([lane],)).fetchall()
            for message_id, token, got in rows:
                conn.execute("SELECT message_complete(%s, %s)", (message_id, token))
                served.append(got)
    dispatch(conn)
    return served


@pytest.mark.cases(3)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("is_first", [True, False], ids=["unserved first", "served first"])
def test_a_lane_without_consumers_keeps_no_slots(
    conn: psycopg.Connection, limit: str, is_first: bool
) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT " + LIMITS[limit])
    for lane in ("unserved", "served") if is_first else ("served", "unserved"):
        create(conn, lane, 150)
        dispatch(conn)
    served = serve(conn, clock, ["served"], 8)
    assert len(served) >= 30, "and not just one per second"
    check(conn)
    both = serve(conn, clock, ["served", "unserved"], 4)
    assert both.count("unserved") > 0, "a consumer that returns is noticed"
    check(conn)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_lane_that_never_had_a_consumer_keeps_no_slots(conn: psycopg.Connection, limit: str) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT " + LIMITS[limit])
    create(conn, "never", 2)
    dispatch(conn)
    create(conn, "served", 1)
    assert serve(conn, clock, ["served"], 2) == ["served"]
    check(conn)


@pytest.mark.parametrize("limit", LIMITS)
def test_lanes_that_are_served_share_a_limit(conn: psycopg.Connection, limit: str) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT " + LIMITS[limit])
    create(conn, "one", 200)
    create(conn, "two", 200)
    served = serve(conn, clock, ["one", "two"], 4)
    assert min(served.count("one"), served.count("two")) >= 12, (served.count("one"), served.count("two"))
    check(conn)


def test_one_lane_is_served_beside_many_that_are_not(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT queue_set(p_max_concurrency => 2)")
    for number in range(20):
        create(conn, f"unserved {number}", 1)
    create(conn, "served", 100)
    assert len(serve(conn, clock, ["served"], 8)) >= 30
    check(conn)


def test_a_consumer_that_finds_nothing_writes_once_per_second(conn: psycopg.Connection) -> None:
    clock = FakeClock(conn)
    conn.execute("SELECT queue_set(p_max_concurrency => 2)")
    create(conn, "one", 1)
    create(conn, "two", 1)
    serve(conn, clock, ["one", "two"], 1)
    before = conn.execute("SELECT COUNT(*) FROM notice WHERE asked IS NOT NULL").fetchone()
    serve(conn, clock, ["one"], 10)
    after = conn.execute("SELECT COUNT(*) FROM notice WHERE asked IS NOT NULL").fetchone()
    assert before is not None
    assert after is not None
    assert 5 <= after[0] - before[0] <= 12
