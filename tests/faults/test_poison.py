"""Messages that always fail get exactly the allowed attempts, then become dead letters (invariant 14)."""

from collections import Counter

import psycopg
import pytest

from tests.clock import FakeClock
from tests.invariants import check, dequeue, dispatch

MESSAGES = 1000


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_one_in_a_hundred_is_poison(conn: psycopg.Connection, max_attempts: int) -> None:
    """They fail or let the lease run out, in turn. Some are released first, which uses up no attempt."""
    clock = FakeClock(conn)
    conn.execute("SELECT * FROM queue_set(p_max_attempts => 3)")
    for n in range(MESSAGES):
        content = f"{'poison' if n % 100 == 0 else 'good'} {n}".encode()
        conn.execute(
            "SELECT message_create(%s, %s, p_max_attempts => %s)",
            (f"channel {n % 7}", content, None if n % 500 == 0 else max_attempts),
        )
    attempts_made: Counter[int] = Counter()
    released: set[int] = set()
    attempts: dict[int, int] = {}
    for _ in range(MESSAGES):
        dispatch(conn)
        messages, _again_at = dequeue(conn, 50, 1000)
        if not messages and not conn.execute("SELECT FROM message LIMIT 1").fetchall():
            break
        for m in messages:
            attempts[m.id] = m.attempts
            kind, number = m.content.split()
            if kind == b"good":
                done = conn.execute("SELECT message_complete(%s, %s)", (m.id, m.token)).fetchone()
                assert (done, m.attempts) == (("completed",), 1)
                continue
            if int(number) % 300 == 0 and attempts_made[m.id] == 0 and m.id not in released:
                released.add(m.id)
                conn.execute("SELECT message_retry(%s, %s)", (m.id, m.token))
                continue
            attempts_made[m.id] += 1
            assert m.attempts == attempts_made[m.id]
            if (int(number) // 100 + m.attempts) % 2:
                conn.execute("SELECT message_retry(%s, %s, p_error => 'poison')", (m.id, m.token))
        clock.advance(500)
    dead = conn.execute("SELECT id, attempts, max_attempts, content FROM dead").fetchall()
    assert sorted(int(row[3].split()[1]) for row in dead) == list(range(0, MESSAGES, 100))
    for id_, used, own, _content in dead:
        assert used == attempts_made[id_] == attempts[id_] == (own or 3)
    assert conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,)
    check(conn)
