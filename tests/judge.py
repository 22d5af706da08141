"""What must hold of the tables at rest, read straight from them: no function of the engine is asked.

"At rest" means that no transaction is open and folding has come to its end.
"""

from typing import Any, NamedTuple
from uuid import UUID

import psycopg

# Each query returns the rows that break its rule.
RULES = {
    "one live ring row a channel": """
        SELECT channel, COUNT(*) FROM ring GROUP BY channel HAVING COUNT(*) > 1""",
    "invariant 8: no waiting message sorts before its channel's head, or lies in what is skipped": """
        SELECT m.id, m.channel, m.dequeue_at, r.* FROM message m LEFT JOIN ring r ON r.channel = m.channel
        WHERE NOT m.leased AND NOT EXISTS (SELECT FROM postponed p WHERE p.key = 'c' || m.channel) AND (
            r.head_at IS NULL OR (m.dequeue_at, m.id) < (r.head_at, r.head_id)
            OR EXISTS (
                SELECT FROM generate_subscripts(r.gaps, 1) i
                WHERE (m.dequeue_at, m.id) > (r.gaps[i][1], r.gaps[i][2])
                    AND (m.dequeue_at, m.id) < (r.gaps[i][3], r.gaps[i][4])))""",
    "no waiting message lies behind its line's tail, where the next gap may begin": """
        SELECT m.id, m.channel, m.dequeue_at, r.tail_at, t.tail_at
        FROM message m JOIN ring r ON r.channel = m.channel CROSS JOIN tick t
        WHERE NOT m.leased AND m.dequeue_at >= GREATEST(r.tail_at, t.tail_at)
            AND NOT EXISTS (SELECT FROM postponed p WHERE p.key = 'c' || m.channel)""",
    "gaps come one after the other, behind the head": """
        SELECT r.channel, r.head_at, r.head_id, r.gaps FROM ring r CROSS JOIN generate_subscripts(r.gaps, 1) i
        WHERE (r.gaps[i][1], r.gaps[i][2])
                < (COALESCE(r.gaps[i - 1][3], r.head_at), COALESCE(r.gaps[i - 1][4], r.head_id))
            OR (r.gaps[i][1], r.gaps[i][2]) >= (r.gaps[i][3], r.gaps[i][4])
            OR r.head_at IS NULL OR array_length(r.gaps, 1) > 4""",
    "invariant 8: a channel with waiting messages is in the ring": """
        SELECT DISTINCT m.channel FROM message m LEFT JOIN ring r ON r.channel = m.channel
        LEFT JOIN channel c ON c.name = m.channel
        WHERE NOT m.leased AND r.due_at IS NULL AND NOT COALESCE(c.paused, FALSE)
            AND NOT EXISTS (SELECT FROM postponed p WHERE p.key = 'c' || m.channel)""",
    "every due ring row lies above the floor": """
        SELECT r.channel, r.due_at, r.turn, t.floor_at, t.floor_turn FROM ring r CROSS JOIN tick t
        WHERE r.due_at IS NOT NULL AND (r.due_at, r.turn) < (t.floor_at, t.floor_turn)
            AND NOT EXISTS (SELECT FROM postponed p WHERE p.key = 'c' || r.channel)""",
    "every lease ends after the sweep": """
        SELECT m.id, m.lease_end_at, t.swept_at, t.swept_id FROM message m CROSS JOIN tick t
        WHERE m.leased AND (m.lease_end_at, m.id) <= (t.swept_at, t.swept_id)
            AND NOT EXISTS (SELECT FROM postponed p WHERE p.key = 'm' || m.id)""",
    "every lease ends before the latest known": """
        SELECT m.id, m.lease_end_at, t.lease_max_at FROM message m CROSS JOIN tick t
        WHERE m.leased AND m.lease_end_at > t.lease_max_at""",
    "a list of what runs misses nothing": """
        SELECT m.id, r.channel FROM message m JOIN ring r ON r.channel = m.channel
        WHERE m.leased AND r.running IS NOT NULL AND m.id <> ALL (r.running)""",
    "invariant 7: no channel above its limit": """
        SELECT m.channel, COUNT(*), c.max_concurrency FROM message m JOIN channel c ON c.name = m.channel
        WHERE m.leased GROUP BY m.channel, c.max_concurrency HAVING COUNT(*) > c.max_concurrency""",
    "invariant 4: a message is leased under a token and an end, or waits without": """
        SELECT id FROM message
        WHERE leased <> (token IS NOT NULL) OR leased <> (lease_end_at IS NOT NULL) OR slot AND NOT leased""",
    "nobody is both dead and alive": "SELECT id FROM message JOIN dead USING (id)",
    "what is postponed is still to be tried": """
        SELECT p.key, p.due_at, t.postponed_to FROM postponed p CROSS JOIN tick t
        WHERE p.due_at <= t.postponed_to OR p.id < t.postponed_id""",
    "a channel with leases has its row in the ring": """
        SELECT DISTINCT channel FROM message m
        WHERE m.leased AND NOT EXISTS (SELECT FROM ring r WHERE r.channel = m.channel)""",
    "one tick": "SELECT COUNT(*) FROM tick HAVING COUNT(*) > 1",
    "one row says what a create must know": "SELECT COUNT(*) FROM sleep HAVING COUNT(*) <> 1",
    "and says what the settings say": """
        SELECT s.*, q.content_max_bytes, q.has_sizes, q.has_bound FROM sleep s CROSS JOIN queue q
        WHERE s.content_max_bytes <> q.content_max_bytes OR s.is_special <> (q.has_sizes OR q.has_bound)""",
    "invariant 15: a message that lives holds its key": """
        SELECT m.id, m.channel, m.dedupe_key FROM message m
        WHERE m.dedupe_key IS NOT NULL AND NOT EXISTS (
            SELECT FROM dedupe d WHERE (d.channel, d.key, d.message_id) = (m.channel, m.dedupe_key, m.id)
                AND d.until_at IS NULL)""",
    "invariant 15: a key that is held is held by a message that lives": """
        SELECT d.* FROM dedupe d
        WHERE d.until_at IS NULL AND NOT EXISTS (SELECT FROM message m WHERE m.id = d.message_id)""",
    "a channel's size, less who left, is what was counted in": """
        SELECT c.channel, c.size, l.n, m.n FROM capacity c
        CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM departure d WHERE d.channel = c.channel) l
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM message m WHERE m.channel = c.channel AND m.is_counted) m
        WHERE c.size - l.n <> m.n""",
    "a channel with a max_size has a size": """
        SELECT c.name FROM channel c
        WHERE c.max_size IS NOT NULL AND NOT EXISTS (SELECT FROM capacity s WHERE s.channel = c.name)""",
    "one size a channel": "SELECT channel FROM capacity GROUP BY channel HAVING COUNT(*) > 1",
    "invariant 7: no more leases than the queue's limit": """
        SELECT COUNT(*), q.max_concurrency FROM message m CROSS JOIN queue q
        WHERE m.leased GROUP BY q.max_concurrency HAVING COUNT(*) > q.max_concurrency""",
    "under the queue's limit every lease has a slot of its own": """
        SELECT m.id FROM message m CROSS JOIN queue q
        WHERE m.leased AND q.max_concurrency IS NOT NULL
            AND (SELECT COUNT(*) FROM queue_slot s WHERE (s.message_id, s.token) = (m.id, m.token)) <> 1""",
    "one row a slot": "SELECT number FROM queue_slot GROUP BY number HAVING COUNT(*) > 1",
    "the tick knows how many wait": """
        SELECT t.waiting, m.n FROM tick t
        CROSS JOIN (SELECT COUNT(*) AS n FROM message WHERE NOT leased) m WHERE t.waiting <> m.n""",
}


class Delivery(NamedTuple):
    id: int
    channel: str
    content: bytes
    headers: dict[str, Any] | None
    state: bytes | None
    attempts: int
    token: UUID
    lease_end_at: int


def fold(conn: psycopg.Connection) -> int:
    """Fold until nothing is left, and say how many calls it took."""
    calls = 1
    while conn.execute("SELECT dispatch()").fetchone() == (True,):
        calls += 1
        assert calls < 100_000, "folding does not come to an end"
    return calls


def dequeue(
    conn: psycopg.Connection, limit: int = 1, lease_ms: int = 30_000, consumer: str | None = None
) -> tuple[list[Delivery], int | None]:
    """The messages, and when to ask again."""
    rows = conn.execute("SELECT * FROM message_dequeue(%s, %s, %s)", (limit, lease_ms, consumer)).fetchall()
    again_at = rows.pop()[8] if rows and rows[-1][0] is None else None
    return [Delivery(*row[:8]) for row in rows], again_at


def check(conn: psycopg.Connection, *, but: tuple[str, ...] = ()) -> None:
    """Every rule, at rest. `but` names rules, by their beginning, that the test at hand suspends."""
    fold(conn)
    for rule, query in RULES.items():
        if not rule.startswith(but or "\0"):
            broken = conn.execute(query).fetchall()
            assert not broken, f"{rule}: {broken[:5]}"


def drain(conn: psycopg.Connection, *, limit: int = 100) -> list[Delivery]:
    """Deliver and complete everything that is due, in order, then judge what is left (invariant 17)."""
    delivered: list[Delivery] = []
    for _ in range(100_000):
        fold(conn)
        messages, _again_at = dequeue(conn, limit)
        if not messages:
            break
        delivered += messages
        for message in messages:
            done = conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone()
            assert done == ("completed",), f"message {message.id} was {done}"
    check(conn)
    return delivered
