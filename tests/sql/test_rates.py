"""Rates with bursts: a token bucket per channel, exact by the server's clock."""

from itertools import pairwise

import psycopg
import pytest

from tests.clock import FakeClock
from tests.database import Connect
from tests.invariants import Delivery, check, dequeue, dispatch

BURST = 5
INTERVAL_MS = 100


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


@pytest.fixture
def limited(conn: psycopg.Connection, clock: FakeClock) -> psycopg.Connection:
    set_rate(conn)
    fill(conn, 100)
    return conn


def set_rate(conn: psycopg.Connection, interval_ms: float = INTERVAL_MS, burst: int = BURST) -> None:
    conn.execute(
        "SELECT channel_set('a', p_release_interval_us => %s, p_burst => %s)",
        (round(1000 * interval_ms), burst),
    )


def fill(conn: psycopg.Connection, count: int, lane: str | None = None) -> None:
    conn.execute(
        """
        SELECT COUNT(*) FROM message_create_many(
            array_fill('a'::TEXT, ARRAY[%(n)s::INT]), array_fill(''::BYTEA, ARRAY[%(n)s::INT]),
            p_lanes => array_fill(%(lane)s::TEXT, ARRAY[%(n)s::INT]))""",
        {"n": count, "lane": lane},
    )


def serve(conn: psycopg.Connection, limit: int = 100) -> list[Delivery]:
    dispatch(conn)
    return dequeue(conn, limit, 3_600_000)[0]


def test_a_burst_then_the_rate(limited: psycopg.Connection, clock: FakeClock) -> None:
    """Invariant 10: never more than the burst at once, and then one per interval."""
    assert len(serve(limited)) == BURST
    for _ in range(3):
        clock.advance(INTERVAL_MS - 1)
        assert serve(limited) == []
        clock.advance(1)
        assert len(serve(limited)) == 1
    clock.advance(3 * INTERVAL_MS)
    assert len(serve(limited)) == 3
    clock.advance(1000 * INTERVAL_MS)
    assert len(serve(limited)) == BURST, "unused tokens are kept up to the burst"
    check(limited)


def test_tokens_come_back_while_others_are_used(limited: psycopg.Connection, clock: FakeClock) -> None:
    assert len(serve(limited, 2)) == 2
    clock.advance(INTERVAL_MS)
    assert len(serve(limited)) == BURST - 1, "two were taken, one came back"
    check(limited)


def test_what_is_ready_has_its_token_already(limited: psycopg.Connection, clock: FakeClock) -> None:
    """Messages that wait in ready for long, and new tokens meanwhile: together no more than the burst."""
    dispatch(limited)
    clock.advance(1000 * INTERVAL_MS)
    assert len(serve(limited)) == BURST
    assert serve(limited) == []
    check(limited)


def test_dequeues_between_two_dispatches_take_a_token_for_each_message(
    limited: psycopg.Connection, clock: FakeClock
) -> None:
    dispatch(limited)
    assert [len(dequeue(limited, 2, 3_600_000)[0]) for _ in range(2)] == [2, 2]
    assert len(serve(limited)) == BURST - 4
    clock.advance(INTERVAL_MS - 1)
    assert serve(limited) == []
    check(limited)


def test_dequeues_whose_notices_are_not_read_yet_keep_their_tokens(
    limited: psycopg.Connection, clock: FakeClock
) -> None:
    """A dispatch that is behind writes new slots before it knows who took what."""
    dispatch(limited)
    assert [len(dequeue(limited, 1, 3_600_000)[0]) for _ in range(BURST)] == [1] * BURST
    limited.execute("SELECT channel_set('a', p_weight => 2)")
    while limited.execute("SELECT dispatch(1)").fetchone() == (True,):
        assert dequeue(limited, 100)[0] == []
    check(limited)


@pytest.mark.slow
def test_an_interval_of_microseconds(conn: psycopg.Connection, clock: FakeClock) -> None:
    """30 per second: 33.334 ms each."""
    set_rate(conn, 33.334, burst=2)
    fill(conn, 100)
    released = []
    began_at = clock.at
    while clock.at < began_at + 1700:
        released += [clock.at - began_at] * len(serve(conn))
        clock.advance(1)
    assert len(released) == 2 + 50, "a burst of two, and 1,699 ms at 33.334 ms each; at 34 ms, one less"
    assert all(after - before >= 33 for before, after in pairwise(released[1:]))


def test_a_retry_takes_another_token(limited: psycopg.Connection, clock: FakeClock) -> None:
    for message in serve(limited):
        limited.execute("SELECT message_retry(%s, %s)", (message.id, message.token))
    assert serve(limited) == []
    clock.advance(INTERVAL_MS)
    assert [message.attempts for message in serve(limited)] == [1]
    check(limited)


def test_a_cancelled_message_takes_none(limited: psycopg.Connection, clock: FakeClock) -> None:
    dispatch(limited)
    ids = [row[0] for row in limited.execute("SELECT id FROM ready ORDER BY id LIMIT 3").fetchall()]
    limited.execute("SELECT message_cancel_many(%s)", (ids,))
    assert len(serve(limited)) == BURST
    assert serve(limited) == []
    check(limited)


def test_a_cancelled_message_while_others_of_the_burst_run(
    limited: psycopg.Connection, clock: FakeClock
) -> None:
    """Those that run for long keep no token."""
    dispatch(limited)
    [first, *_] = limited.execute("SELECT id FROM ready ORDER BY id DESC LIMIT 1").fetchall()[0]
    limited.execute("SELECT message_cancel(%s)", (first,))
    running = dequeue(limited, 2, 3_600_000)[0]
    assert len(running) == 2
    assert len(serve(limited)) == BURST - 2
    clock.advance(1000 * INTERVAL_MS)
    assert len(serve(limited)) == BURST
    check(limited)


@pytest.mark.parametrize(
    "change", ["channel_set('a', p_weight => 2)", "queue_set(p_channel_release_interval_us => 0)"]
)
@pytest.mark.parametrize("withdraw", ["message_cancel", "message_reschedule"])
def test_a_message_withdrawn_before_the_policy_changes_takes_none(
    limited: psycopg.Connection, clock: FakeClock, withdraw: str, change: str
) -> None:
    """The new list of slots has it only among those that are out."""
    dispatch(limited)
    limited.execute(f"SELECT {withdraw}(MIN(id)) FROM ready")
    limited.execute(f"SELECT {change}")
    assert len(serve(limited)) == BURST
    assert serve(limited) == []
    check(limited)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_open_dequeue_keeps_its_tokens(
    limited: psycopg.Connection, connect: Connect, clock: FakeClock, end: str
) -> None:
    other = connect(autocommit=False)
    dispatch(limited)
    assert len(dequeue(other, 3, 3_600_000)[0]) == 3
    clock.advance(10 * INTERVAL_MS)
    assert len(serve(limited)) == BURST - 3, "the bucket is full, and three tokens belong to the open dequeue"
    for _ in range(25):  # also when the floor has moved above them
        clock.advance(INTERVAL_MS)
        assert len(serve(limited)) == 1
    assert limited.execute("SELECT COUNT(*) FROM ready_locked").fetchone() == (3,)
    clock.advance(1000)
    getattr(other, end)()
    assert len(serve(limited)) == BURST, "the bucket was full again when it ended"
    assert serve(limited) == []
    check(limited)


@pytest.mark.parametrize(
    "change", ["p_paused => FALSE", "p_weight => 2", "p_max_concurrency => 100", "p_max_size => 1000"]
)
def test_another_part_of_the_policy_gives_no_tokens(
    limited: psycopg.Connection, clock: FakeClock, change: str
) -> None:
    assert len(serve(limited)) == BURST
    limited.execute(f"SELECT channel_set('a', {change})")
    assert serve(limited) == []
    clock.advance(INTERVAL_MS)
    assert len(serve(limited)) == 1
    check(limited)


def test_another_rate_keeps_what_is_missing(limited: psycopg.Connection, clock: FakeClock) -> None:
    """Five tokens are missing, before and after, however long they take to come back."""
    assert len(serve(limited)) == BURST
    set_rate(limited, 1000, BURST + 2)
    assert len(serve(limited)) == 2, "a larger burst"
    clock.advance(999)
    assert serve(limited) == []
    clock.advance(1)
    assert len(serve(limited)) == 1
    set_rate(limited, 10, 2)
    assert serve(limited) == []
    clock.advance(10)
    assert len(serve(limited)) == 1, "no more than the burst can be missing"
    check(limited)


def test_another_rate_does_not_count_the_same_time_twice(
    limited: psycopg.Connection, clock: FakeClock
) -> None:
    """Two and a half tokens came back before the change, so as many are missing after it."""
    assert len(serve(limited)) == BURST
    limited.execute("SELECT channel_set('a', p_paused => TRUE)")
    clock.advance(5 * INTERVAL_MS // 2)
    limited.execute("SELECT channel_set('a', p_paused => FALSE)")
    set_rate(limited, 10 * INTERVAL_MS)
    assert len(serve(limited)) == 2
    clock.advance(5 * INTERVAL_MS - 1)
    assert serve(limited) == []
    clock.advance(1)
    assert len(serve(limited)) == 1, "the half of a token is kept"
    check(limited)


def test_another_rate_after_the_clock_was_set_back(limited: psycopg.Connection, clock: FakeClock) -> None:
    assert len(serve(limited)) == BURST
    dispatch(limited)
    clock.set(clock.at - 3_600_000)
    set_rate(limited, 10 * INTERVAL_MS)
    assert serve(limited) == []
    clock.advance(10 * INTERVAL_MS)
    assert len(serve(limited)) == 1
    check(limited)


def test_the_first_rate_starts_with_a_burst(conn: psycopg.Connection, clock: FakeClock) -> None:
    fill(conn, 100)
    assert len(serve(conn, 20)) == 20
    clock.advance(1)
    set_rate(conn)
    assert len(serve(conn)) == BURST - 1, "the last release before counts as one"
    check(conn)


def test_many_taken_before_the_rate_was_set_do_not_stop_the_channel(
    conn: psycopg.Connection, connect: Connect, clock: FakeClock
) -> None:
    other = connect(autocommit=False)
    fill(conn, 100)
    dispatch(conn)
    assert len(dequeue(other, 50)[0]) == 50
    set_rate(conn)
    assert serve(conn) == [], "they count as released, as long as nobody knows when"
    other.commit()
    dispatch(conn)
    clock.advance(INTERVAL_MS)
    assert len(serve(conn)) == 1, "at most a burst is missing"
    check(conn)


def test_a_burst_and_a_concurrency_limit(limited: psycopg.Connection, clock: FakeClock) -> None:
    limited.execute("SELECT channel_set('a', 3)")
    running = serve(limited)
    assert len(running) == 3
    for message in running:
        limited.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    assert len(serve(limited)) == BURST - 3
    check(limited)


def test_a_lane_without_consumers_gives_its_tokens_back(conn: psycopg.Connection, clock: FakeClock) -> None:
    set_rate(conn, 60_000)
    fill(conn, 20, "idle")
    dispatch(conn)
    fill(conn, 20, "busy")
    for _ in range(10):
        clock.advance(1000)
        dispatch(conn)
        rows = conn.execute("SELECT id FROM message_dequeue(100, p_lanes => '{busy}')").fetchall()
        if len(rows) > BURST:
            break
    assert len(rows) == BURST + 1, "and the row that says when to come again"
    check(conn)


def test_a_large_burst_comes_in_parts(conn: psycopg.Connection, clock: FakeClock) -> None:
    set_rate(conn, 60_000, 3000)
    fill(conn, 4000)
    served = 0
    while messages := serve(conn, 10_000):
        assert len(messages) <= 1000
        served += len(messages)
    assert served == 3000
    check(conn)


@pytest.mark.parametrize("is_dispatched", [False, True])
@pytest.mark.parametrize("change", [None, "p_weight => 2", "p_release_interval_us => 200000"])
def test_a_clock_that_is_set_back(
    limited: psycopg.Connection, clock: FakeClock, change: str | None, *, is_dispatched: bool
) -> None:
    """What was missing is still missing, counted from the new time."""
    assert len(serve(limited)) == BURST
    if is_dispatched:
        dispatch(limited)
    clock.set(clock.at - 3_600_000)
    if change is not None:
        limited.execute(f"SELECT channel_set('a', {change})")
    assert serve(limited) == []
    interval_ms = 200 if change == "p_release_interval_us => 200000" else INTERVAL_MS
    clock.advance(1000)  # alarms from before
    assert len(serve(limited)) == min(BURST, 1000 // interval_ms)
    clock.advance(interval_ms)
    assert len(serve(limited)) == 1
    check(limited)


def test_the_statistics_say_when_the_rate_stops_a_channel(
    limited: psycopg.Connection, clock: FakeClock
) -> None:
    query = "SELECT blocked_by, release_interval_us, burst FROM channel_stats('a')"
    assert len(serve(limited, BURST - 1)) == BURST - 1
    dispatch(limited)
    assert limited.execute(query).fetchone() == (None, 1000 * INTERVAL_MS, BURST)
    assert len(serve(limited)) == 1
    dispatch(limited)
    assert limited.execute(query).fetchone() == ("rate", 1000 * INTERVAL_MS, BURST)
    clock.advance(INTERVAL_MS)
    assert limited.execute(query).fetchone() == (None, 1000 * INTERVAL_MS, BURST)


def test_again_at_is_when_the_next_token_comes(limited: psycopg.Connection, clock: FakeClock) -> None:
    assert len(serve(limited)) == BURST
    dispatch(limited)
    assert dequeue(limited, 10) == ([], clock.at + INTERVAL_MS)
