"""message_reject_many: a consumer that cannot handle a message gives it back, at no cost, more and more
slowly, and in the end the message is dead.
"""

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import Delivery, check, dequeue, dispatch

MINUTE, DAY = 60_000, 86_400_000


@pytest.fixture
def clock(conn: psycopg.Connection) -> FakeClock:
    return FakeClock(conn)


def taken(conn: psycopg.Connection) -> Delivery:
    dispatch(conn)
    [message], _ = dequeue(conn)
    return message


def reject(
    conn: psycopg.Connection, *messages: Delivery, error: str = "nobody knew it", timeout_ms: int | None = DAY
) -> list[str]:
    rows = conn.execute(
        "SELECT result FROM message_reject_many(%s, %s, %s, %s)",
        (
            [message.id for message in messages],
            [message.token for message in messages],
            [error for _ in messages],
            timeout_ms,
        ),
    ).fetchall()
    return [row[0] for row in rows]


def due_in(conn: psycopg.Connection, clock: FakeClock) -> int:
    [(at,)] = conn.execute("SELECT dequeue_at FROM message").fetchall()
    return int(at) - clock.at


def test_a_rejected_message_comes_back_more_and_more_slowly(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    conn.execute("SELECT message_create('a', '')")
    delays: list[int] = []
    for _ in range(60):
        message = taken(conn)
        assert message.attempts == 1, "it uses up no attempt"
        assert reject(conn, message) == ["rejected"]
        delays.append(due_in(conn, clock))
        clock.advance(delays[-1])
    assert all(185 <= delay <= 315 for delay in delays[:4])
    assert all(45_000 <= delay <= 75_000 for delay in delays[-10:])
    assert delays[20] > 2 * delays[4]
    assert sum(delays[:12]) < 10_000, "another worker gets it within seconds"
    assert conn.execute("SELECT attempts, error FROM message").fetchall() == [(0, None)]
    check(conn)


def test_it_is_dead_after_the_timeout(conn: psycopg.Connection, clock: FakeClock) -> None:
    conn.execute("SELECT message_create('a', '')")
    clock.advance(3 * DAY)
    assert reject(conn, taken(conn)) == ["rejected"], "the time counts from the first rejection"
    clock.advance(DAY - 1)
    assert reject(conn, taken(conn), timeout_ms=None) == ["rejected"]
    clock.advance(2 * MINUTE)
    assert reject(conn, taken(conn)) == ["dead"]
    assert conn.execute("SELECT attempts, error FROM dead").fetchall() == [(1, "nobody knew it")]
    conn.execute("SELECT dead_retry(ARRAY[(SELECT id FROM dead)])")
    assert reject(conn, taken(conn)) == ["rejected"], "a retry starts the time anew"
    check(conn)


def test_without_a_timeout_it_is_never_dead_and_with_zero_at_once(
    conn: psycopg.Connection, clock: FakeClock
) -> None:
    conn.execute("SELECT message_create('a', '')")
    assert reject(conn, taken(conn), timeout_ms=0) == ["dead"]
    conn.execute("SELECT message_create('a', '')")
    for _ in range(3):
        assert reject(conn, taken(conn), timeout_ms=None) == ["rejected"]
        clock.advance(1000 * DAY)
    assert reject(conn, taken(conn), timeout_ms=DAY) == ["dead"]


def test_a_failed_attempt_starts_the_time_anew(conn: psycopg.Connection, clock: FakeClock) -> None:
    """Somebody knew the message meanwhile."""
    conn.execute("SELECT message_create('a', '')")
    assert reject(conn, taken(conn)) == ["rejected"]
    clock.advance(2 * DAY)
    message = taken(conn)
    conn.execute("SELECT message_retry(%s, %s)", (message.id, message.token))
    message = taken(conn)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'failed')", (message.id, message.token))
    assert reject(conn, taken(conn)) == ["rejected"]
    assert due_in(conn, clock) < 400
    assert taken_later(conn, clock).attempts == 2


def taken_later(conn: psycopg.Connection, clock: FakeClock) -> Delivery:
    clock.advance(MINUTE)
    return taken(conn)


def test_what_others_did_to_the_message(conn: psycopg.Connection) -> None:
    conn.execute("SELECT message_create('a', '') FROM generate_series(1, 3)")
    dispatch(conn)
    (one, two, three), _ = dequeue(conn, 3)
    conn.execute("SELECT message_cancel(%s)", (one.id,))
    conn.execute("SELECT message_complete(%s, %s)", (two.id, two.token))
    assert reject(conn, three, one, two, three) == ["rejected", "cancelled", "not_found", "lost"]
    assert reject(conn) == []
    check(conn)


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("message_reject_many('{1}', ARRAY[gen_random_uuid()], '{}')", "LM006"),
        ("message_reject_many('{1}', ARRAY[gen_random_uuid()], NULL)", "LM006"),
        ("message_reject_many('{1}', ARRAY[gen_random_uuid()], '{e}', -1)", "LM003"),
    ],
)
def test_refusals(conn: psycopg.Connection, call: str, sqlstate: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(f"SELECT * FROM {call}".encode())
    assert refused.value.sqlstate == sqlstate
    assert refused.value.diag.message_hint
