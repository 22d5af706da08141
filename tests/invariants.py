"""What must be true of the tables, read directly, without calling functions of the engine.

`audit` checks what is true in every snapshot, even while others are working. `check` dispatches first and
also checks what is true at rest: when no transaction is open and nothing is left to dispatch. Each reads one
snapshot.

What the queue promises, by the numbers that tests use:

 1. A committed message is completed, dead, cancelled or still stored. Nothing vanishes.
 2. A message whose create was rolled back is never seen.
 3. Nothing else is delivered, and its bytes are unchanged.
 4. A message has at most one live lease.
 5. A message is completed at most once, and only the current token completes, extends or retries it.
 6. A second complete does nothing, and says so.
 7. The live leases of a channel never exceed its limit, except after the limit was lowered.
 8. No waiting message comes before the head of its line, and every line that has messages is known.
 9. A message is never delivered before its `dequeue_at`.
10. Under a rate, any time t has at most burst + t / interval releases, by the server's clock.
11. One consumer gets the messages of a channel in order of priority, `dequeue_at` and id.
12. Channels with a backlog are served equally, up to one message.
13. No channel with due messages that may release waits while consumers ask.
14. Attempts only grow, and a message is dead exactly at the limit.
15. A dedupe key has one message for as long as that message says.
16. A batch call does the same as the single calls in sequence.
17. After a drain there are no leases, lines or unread notices left.
18. The credentials of a tenant cannot read, count or touch the messages of another.
19. After a dump and a restore every waiting message is served: derived tables are not needed.
20. A message is in exactly one place, in every snapshot.
21. Of two channels with a backlog and no limit, cost / weight served differs by at most a message of each.
22. No message depends on the clock to be found: a step of the clock delays it by at most the step.
23. No transaction (open, busy, prepared, stopped) stops other sessions for more than a few seconds.
24. The counts of a batch are exact, and its callbacks are created once, with what causes them.
25. Every promise holds with all tables in a logical publication.

A server crash may lose dequeues, so 10 and 14 do not hold across one.
"""

from typing import Any, NamedTuple
from uuid import UUID

import psycopg

# The tables that the rules use. A message is in the place that has its id and generation.
PLACES = """
    WITH t AS MATERIALIZED (SELECT * FROM tick ORDER BY id DESC LIMIT 1),
    lane AS MATERIALIZED (SELECT l.* FROM t CROSS JOIN unnest(t.lanes) l),
    unread AS MATERIALIZED (
        SELECT w.* FROM t JOIN notice w ON (w.xid, w.id) > (t.seen_xid, t.seen_id)
        UNION ALL
        SELECT w.* FROM t CROSS JOIN unnest(t.open) o JOIN notice w ON w.xid = o.xid AND w.id > o.id),
    live_backlog AS MATERIALIZED (
        SELECT b.* FROM backlog b
        WHERE b.turn = (SELECT MAX(x.turn) FROM backlog x WHERE x.channel = b.channel AND x.lane = b.lane)
            AND b.ranges <> '{}'),
    live_slots AS MATERIALIZED (
        SELECT s.* FROM slots s WHERE s.turn = (SELECT MAX(x.turn) FROM slots x WHERE x.channel = s.channel)),
    busy AS MATERIALIZED (
        SELECT s.channel, b.id, b.generation FROM live_slots s CROSS JOIN unnest(s.busy) b
        JOIN message m ON m.id = b.id AND m.generation = b.generation),
    leased AS MATERIALIZED (
        SELECT m.id, m.generation, m.channel, l.token, l.end_at FROM lease l CROSS JOIN unnest(l.stubs) s
        JOIN message m ON m.id = s.id AND m.generation = s.generation),
    places AS MATERIALIZED (
        SELECT m.id, m.generation, 'unread' AS place
        FROM (
            SELECT s.xid, s.lo_id, s.hi_id FROM t CROSS JOIN unnest(t.spans) s
            UNION ALL
            SELECT u.xid, u.lo_id, u.hi_id FROM unread u WHERE u.lo_id IS NOT NULL) s
        JOIN message m ON m.xid = s.xid AND m.id BETWEEN s.lo_id AND s.hi_id AND m.generation = 0
        UNION ALL
        SELECT b.id, b.generation, 'unread' FROM unread u CROSS JOIN unnest(u.back) b
        UNION ALL
        -- It was locked when a dequeue wanted to take it: it is placed again at that time.
        SELECT (a.back).id, (a.back).generation, 'unread' FROM alarm a WHERE (a.back).id IS NOT NULL
        UNION ALL SELECT id, generation, 'scheduled' FROM scheduled
        UNION ALL SELECT id, generation, 'line' FROM line
        UNION ALL SELECT id, generation, 'ready' FROM ready
        UNION ALL SELECT id, generation, 'leased' FROM leased),
    -- Channels whose policy changed, if the dispatcher has not read that yet; '' is the whole queue.
    changed AS MATERIALIZED (
        SELECT channel FROM policy_change UNION SELECT channel FROM unread WHERE channel IS NOT NULL),
    -- What applies to each channel: its own limits, or those of the queue for channels.
    policy AS MATERIALIZED (
        SELECT n.name, COALESCE(c.paused, FALSE) AS paused,
            NULLIF(COALESCE(c.max_concurrency, q.channel_max_concurrency), 0) AS max_concurrency,
            NULLIF(COALESCE(c.release_interval_us, q.channel_release_interval_us), 0) AS interval_us,
            COALESCE(c.burst, q.channel_burst, 1) AS burst
        FROM (SELECT name FROM channel UNION SELECT channel FROM message) n
        CROSS JOIN queue q LEFT JOIN channel c ON c.name = n.name),
    used AS MATERIALIZED (
        SELECT channel, COUNT(*) FILTER (WHERE NOT is_leased) AS ready,
            COUNT(*) FILTER (WHERE is_leased) AS leased
        FROM (
            SELECT r.channel, FALSE AS is_leased FROM ready r
            JOIN message m ON m.id = r.id AND m.generation = r.generation
            UNION ALL SELECT channel, TRUE FROM leased) x
        GROUP BY channel)
"""

# Each query returns the rows that break its rule.
ALWAYS = {
    "invariant 20: a message is in exactly one place": """
        SELECT m.id, m.channel, m.generation, array_agg(p.place) AS places
        FROM message m LEFT JOIN places p ON p.id = m.id AND p.generation = m.generation CROSS JOIN t
        GROUP BY m.id, t.rescan_id, t.rescan_to
        HAVING COUNT(p.place) <> 1
            AND NOT COALESCE(COUNT(p.place) = 0 AND m.id > t.rescan_id AND m.id <= t.rescan_to, FALSE)""",
    # A message that is rescheduled while a dispatch reads its notice leaves an entry of the old generation.
    # A dequeue that takes that entry finds that it is void.
    "invariant 20: no entry is of a generation that its message does not have yet": """
        SELECT p.*, m.generation AS now FROM places p JOIN message m ON m.id = p.id
        WHERE p.generation > m.generation AND p.place <> 'unread'""",
    "an entry agrees with its message": """
        SELECT e.*, m.channel, m.lane, m.priority, m.dequeue_at, m.cost
        FROM (
            SELECT id, generation, channel, lane, rank, at, cost FROM line
            UNION ALL SELECT id, generation, channel, lane, rank, at, cost FROM ready
            UNION ALL SELECT id, generation, channel, lane, rank, at, cost FROM scheduled) e
        JOIN message m ON m.id = e.id AND m.generation = e.generation
        WHERE (e.channel, e.lane, e.rank, e.at, e.cost)
            <> (m.channel, m.lane, -m.priority, m.dequeue_at, m.cost)""",
    "no message is both dead and alive": "SELECT id FROM message JOIN dead USING (id)",
    "invariant 8: a line has a backlog": """
        SELECT DISTINCT e.channel, e.lane FROM line e
        WHERE NOT EXISTS (SELECT FROM live_backlog b WHERE b.channel = e.channel AND b.lane = e.lane)""",
    "one live backlog per line": """
        SELECT channel, lane FROM backlog GROUP BY channel, lane HAVING COUNT(*) > 1""",
    "invariant 8: the ranges of a line cover it": """
        SELECT e.*, b.ranges FROM line e JOIN live_backlog b ON b.channel = e.channel AND b.lane = e.lane
        WHERE NOT EXISTS (
            SELECT FROM unnest(b.ranges) s
            WHERE (e.rank, e.at, e.id) >= (s.lo_rank, s.lo_at, s.lo_id)
                AND (e.rank, e.at, e.id) <= (s.hi_rank, s.hi_at, s.hi_id))""",
    "ranges come one after the other": """
        SELECT b.channel, b.lane, b.ranges FROM live_backlog b
        CROSS JOIN LATERAL (
            SELECT s.*, LEAD(ARRAY[s.lo_rank, s.lo_at, s.lo_id]) OVER (ORDER BY s.ord) AS next
            FROM unnest(b.ranges) WITH ORDINALITY s (lo_rank, lo_at, lo_id, hi_rank, hi_at, hi_id, ord)) s
        WHERE (s.lo_rank, s.lo_at, s.lo_id) > (s.hi_rank, s.hi_at, s.hi_id)
            OR ARRAY[s.hi_rank, s.hi_at, s.hi_id] >= s.next OR cardinality(b.ranges) > 20""",
    "an open line's tag is not below its lane's virtual time": """
        SELECT b.channel, b.lane, b.tag, l.v FROM live_backlog b LEFT JOIN lane l ON l.name = b.lane
        WHERE b.is_open AND (b.tag >= l.v) IS NOT TRUE""",
    "ready is served up to the first tag that a line has": """
        SELECT b.channel, b.lane, b.tag, l.horizon FROM live_backlog b JOIN lane l ON l.name = b.lane
        CROSS JOIN queue q
        WHERE b.is_open AND b.tag < l.horizon AND q.max_concurrency IS NULL
            AND '' NOT IN (SELECT channel FROM changed)""",
    "ready has only locked entries below its lane's floor": """
        SELECT r.lane, r.tag, r.id, r.channel, l.floor FROM ready r LEFT JOIN lane l ON l.name = r.lane
        WHERE (r.tag >= l.floor) IS NOT TRUE
            AND NOT EXISTS (
                SELECT FROM ready_locked h WHERE h.lane = r.lane AND h.tag = r.tag AND h.id = r.id)""",
    "locked entries are looked at again": """
        SELECT h.* FROM ready_locked h CROSS JOIN t WHERE t.locked_check_at IS NULL""",
    "no tag is above the highest that was issued": """
        SELECT r.lane, r.tag, r.id, l.issued FROM ready r JOIN lane l ON l.name = r.lane
        WHERE r.tag > GREATEST(l.issued, l.v)""",
    "invariant 11: tags of a channel ascend in its order": """
        SELECT * FROM (
            SELECT r.lane, r.channel, r.tag, r.id, ARRAY[r.rank, r.at, r.id] AS place,
                LAG(ARRAY[r.rank, r.at, r.id]) OVER (
                    PARTITION BY r.lane, r.channel ORDER BY r.tag, r.id) AS before
            FROM ready r JOIN message m ON m.id = r.id AND m.generation = r.generation WHERE r.xmax = '0') x
        WHERE x.place < x.before""",
    "invariant 11: a line comes behind what is in ready": """
        SELECT r.lane, r.channel, r.id, r.rank, r.at, e.id AS behind, e.rank, e.at FROM ready r
        JOIN line e ON e.channel = r.channel AND e.lane = r.lane
        JOIN message m ON m.id = e.id AND m.generation = e.generation
        JOIN message n ON n.id = r.id AND n.generation = r.generation
        WHERE (e.rank, e.at, e.id) < (r.rank, r.at, r.id) AND r.xmax = '0' AND e.xmax = '0'""",
    "scheduled messages are found when they are due": """
        SELECT s.*, t.due_to FROM scheduled s CROSS JOIN t
        WHERE s.at <= t.due_to AND NOT EXISTS (
            SELECT FROM alarm a WHERE a.scheduled_at = s.at AND a.scheduled_id = s.id)""",
    "alarms are not due before alarm_to": """
        SELECT a.*, t.alarm_to FROM alarm a CROSS JOIN t WHERE a.at <= t.alarm_to""",
    "the stubs of a lease row are in order": """
        SELECT l.token, l.last_id, l.stubs FROM lease l
        WHERE l.stubs <> ARRAY(SELECT DISTINCT s FROM unnest(l.stubs) s ORDER BY s)
            OR (l.stubs[cardinality(l.stubs)]).id > l.last_id OR cardinality(l.stubs) > 100
            OR EXISTS (
                SELECT FROM lease x
                WHERE x.token = l.token AND x.last_id < l.last_id AND (l.stubs[1]).id <= x.last_id)""",
    "every lease ends after the sweep": """
        SELECT l.id, l.end_at, t.swept_at FROM leased l CROSS JOIN t
        WHERE l.end_at <= t.swept_at
            AND NOT EXISTS (SELECT FROM alarm a WHERE a.lease_end_at <= l.end_at)
            AND NOT EXISTS (SELECT FROM unread u WHERE u.lease_end_at <= l.end_at)""",
    "every lease ends before the latest known": """
        SELECT l.id, l.end_at, t.lease_max_at FROM leased l CROSS JOIN t
        WHERE l.end_at > t.lease_max_at
            AND NOT EXISTS (SELECT FROM unread u WHERE u.lease_end_at >= l.end_at)""",
    "invariant 7: ready has no more of a channel than its limit allows": """
        SELECT u.*, c.max_concurrency FROM used u JOIN policy c ON c.name = u.channel
        WHERE u.ready > 0 AND u.ready + u.leased > c.max_concurrency
            AND NOT EXISTS (SELECT FROM changed x WHERE x.channel IN (u.channel, ''))""",
    "invariant 7: ready has no more than the limit of the queue allows": """
        SELECT SUM(u.ready), SUM(u.leased), q.max_concurrency FROM used u CROSS JOIN queue q
        WHERE '' NOT IN (SELECT channel FROM changed) GROUP BY q.max_concurrency
        HAVING SUM(u.ready) > 0 AND SUM(u.ready) + SUM(u.leased) > q.max_concurrency""",
    "invariant 7: what is leased or in ready has a slot": """
        SELECT p.id, n.name FROM places p JOIN message m ON m.id = p.id AND m.generation = p.generation
        CROSS JOIN LATERAL (
            SELECT c.name FROM policy c
            WHERE c.name = m.channel AND (c.max_concurrency IS NOT NULL OR c.interval_us IS NOT NULL)
            UNION ALL SELECT '' FROM queue q WHERE q.max_concurrency IS NOT NULL) n
        WHERE p.place IN ('ready', 'leased')
            AND NOT EXISTS (SELECT FROM changed x WHERE x.channel IN (n.name, ''))
            AND NOT EXISTS (
                SELECT FROM busy b WHERE (b.channel, b.id, b.generation) = (n.name, p.id, p.generation))""",
    "invariant 7: a slot belongs to what is leased or in ready": """
        SELECT b.*, p.place FROM busy b JOIN places p ON p.id = b.id AND p.generation = b.generation
        WHERE p.place NOT IN ('ready', 'leased', 'unread')""",
    "one live row of slots per channel": "SELECT channel FROM slots GROUP BY channel HAVING COUNT(*) > 1",
    "invariant 10: a channel with a rate has no more than its burst in ready": """
        SELECT u.*, c.interval_us, c.burst FROM used u JOIN policy c ON c.name = u.channel
        WHERE c.interval_us IS NOT NULL AND u.ready > c.burst
            AND NOT EXISTS (SELECT FROM changed x WHERE x.channel IN (u.channel, ''))""",
    "invariant 10: what a channel with a rate has in ready is known to take a token": """
        SELECT r.channel, r.id, s.out FROM ready r
        JOIN message m ON m.id = r.id AND m.generation = r.generation
        JOIN policy c ON c.name = r.channel AND c.interval_us IS NOT NULL
        LEFT JOIN live_slots s ON s.channel = r.channel
        WHERE NOT COALESCE(ROW(r.id, r.generation)::stub = ANY (s.out), FALSE)
            AND NOT EXISTS (SELECT FROM changed x WHERE x.channel IN (r.channel, ''))""",
    "a paused channel has nothing in ready": """
        SELECT u.* FROM used u JOIN policy c ON c.name = u.channel
        WHERE c.paused AND u.ready > 0 AND u.channel NOT IN (SELECT channel FROM changed)""",
    "one tick": "SELECT COUNT(*) FROM tick HAVING COUNT(*) > 1",
    "the tick and the notices agree on how many wait": """
        SELECT x.* FROM (
            SELECT t.waiting + COALESCE((SELECT SUM(u.n) FROM unread u), 0) AS counted,
                (SELECT COUNT(*) FROM message) - (SELECT COUNT(*) FROM leased) AS waiting
            FROM t WHERE t.rescan_id IS NULL) x
        WHERE x.counted <> x.waiting""",
    "sleep has one row": "SELECT COUNT(*) FROM sleep HAVING COUNT(*) <> 1",
    "sleep agrees with the settings": """
        SELECT s.*, q.content_max_bytes AS max_bytes, q.has_sizes, q.has_bound FROM sleep s CROSS JOIN queue q
        WHERE s.content_max_bytes <> q.content_max_bytes OR s.is_special <> (q.has_sizes OR q.has_bound)""",
    "invariant 15: a message has its key": """
        SELECT m.id, m.channel, m.dedupe_key FROM message m
        WHERE m.unique_for_ms IS NOT NULL AND NOT EXISTS (
            SELECT FROM dedupe d WHERE (d.channel, d.key, d.message_id) = (m.channel, m.dedupe_key, m.id)
                AND d.until_at IS NULL)""",
    "invariant 15: a key that is taken belongs to a message that exists": """
        SELECT d.* FROM dedupe d
        WHERE d.until_at IS NULL AND d.unique_for_ms IS NOT NULL
            AND NOT EXISTS (SELECT FROM message m WHERE m.id = d.message_id)""",
    "a key that is held while its message waits is looked at by maintain": """
        SELECT d.* FROM dedupe d
        WHERE d.message_id IS NOT NULL AND d.unique_for_ms IS NULL AND d.check_at IS NULL
            OR d.unique_for_ms IS NOT NULL AND d.check_at IS DISTINCT FROM d.until_at""",
    "a key has one row, and one with turn 0; more if creates counted on a message when it was taken over": """
        SELECT d.channel, d.key FROM dedupe d GROUP BY d.channel, d.key
        HAVING COUNT(*) FILTER (WHERE d.turn = 0) <> 1
            OR COUNT(d.message_id) <> 1 + COUNT(*) FILTER (
                WHERE d.unique_for_ms IS NULL AND d.message_id IS NOT NULL AND d.turn < (
                    SELECT MAX(x.turn) FROM dedupe x WHERE x.channel = d.channel AND x.key = d.key))""",
    "a channel's size, less the departures, is the number of counted messages": """
        SELECT c.channel, c.size, l.n AS departed, m.n AS counted FROM capacity c
        CROSS JOIN LATERAL (SELECT COALESCE(SUM(d.n), 0) AS n FROM departure d WHERE d.channel = c.channel) l
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM message m WHERE m.channel = c.channel AND m.is_counted) m
        WHERE c.size - l.n <> m.n""",
    "a channel with a max_size of its own has a size": """
        SELECT c.name FROM channel c
        WHERE c.max_size > 0 AND NOT EXISTS (SELECT FROM capacity s WHERE s.channel = c.name)""",
    "a batch has one row of counts": """
        SELECT b.id, COUNT(c.batch_id) FROM batch b FULL JOIN batch_count c ON c.batch_id = b.id
        GROUP BY b.id HAVING COUNT(c.batch_id) <> 1 OR b.id IS NULL""",
    "invariant 24: the counts of a batch": """
        SELECT c.*, p.n AS added, m.n AS unfinished, o.n AS to_come, d.n AS letters FROM batch_count c
        CROSS JOIN LATERAL (SELECT COALESCE(SUM(n), 0) AS n FROM batch_part p WHERE p.batch_id = c.batch_id) p
        CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM message m WHERE m.batch_id = c.batch_id) m
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM batch b JOIN batch_count x ON x.batch_id = b.id
            WHERE (b.on_complete).options -> 'batch_id' = to_jsonb(c.batch_id) AND NOT x.is_called) o
        CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM dead d WHERE d.batch_id = c.batch_id) d
        WHERE p.n <> c.completed + c.dead + c.cancelled + m.n + o.n OR p.n <> c.total OR d.n > c.dead
            OR (c.finished_at IS NOT NULL) <> (c.total IS NOT NULL AND m.n + o.n = 0)""",
    "one size per channel": "SELECT channel FROM capacity GROUP BY channel HAVING COUNT(*) > 1",
    "invariant 7: no channel above its limit": """
        SELECT u.*, c.max_concurrency FROM used u JOIN policy c ON c.name = u.channel
        WHERE u.leased > c.max_concurrency""",
    "invariant 7: no more leases than the queue's limit": """
        SELECT SUM(u.leased), q.max_concurrency FROM used u CROSS JOIN queue q
        GROUP BY q.max_concurrency HAVING SUM(u.leased) > q.max_concurrency""",
}
AT_REST = {
    "nothing is unread": "SELECT * FROM unread",
    "every message is placed": """
        SELECT t.spans, t.rescan_id, t.rescan_to FROM t WHERE t.spans <> '{}' OR t.rescan_id IS NOT NULL""",
    "every policy is in force": "SELECT * FROM policy_change",
    "invariant 17: an empty line has no backlog": """
        SELECT b.* FROM live_backlog b CROSS JOIN queue q
        WHERE b.is_open AND q.max_concurrency IS NULL AND (SELECT COUNT(*) FROM ready) < 50
            AND NOT EXISTS (SELECT FROM line e WHERE e.channel = b.channel AND e.lane = b.lane)""",
    "a backlog has the messages of its line": """
        SELECT b.channel, b.lane, b.n, e.n AS line FROM live_backlog b
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM line e WHERE e.channel = b.channel AND e.lane = b.lane) e
        WHERE b.n <> e.n""",
    "invariants 8, 13: a line that is closed has a reason": """
        SELECT b.channel, b.lane, b.n, c.*, s.busy, s.out FROM live_backlog b
        LEFT JOIN policy c ON c.name = b.channel LEFT JOIN live_slots s ON s.channel = b.channel
        WHERE NOT b.is_open AND NOT COALESCE(c.paused, FALSE)
            AND NOT COALESCE(
                (SELECT COUNT(*) FROM busy x WHERE x.channel = b.channel) >= c.max_concurrency, FALSE)
            AND NOT EXISTS (SELECT FROM alarm a WHERE a.channel = b.channel)
            AND NOT EXISTS (SELECT FROM ready r WHERE ROW(r.id, r.generation)::stub = ANY (s.out))""",
    "invariant 13: a line that is open goes on when ready is low": """
        SELECT l.name, l.low_tag, l.low_id, l.horizon FROM lane l CROSS JOIN queue q
        WHERE q.max_concurrency IS NULL
            AND (l.horizon < l.low_tag OR NOT EXISTS (
                SELECT FROM ready r
                WHERE r.lane = l.name AND r.tag >= l.floor AND r.tag <= l.horizon AND r.xmax = '0'
                    AND (r.tag, r.id) <= (l.low_tag, l.low_id)))
            AND EXISTS (SELECT FROM live_backlog b WHERE b.lane = l.name AND b.is_open)""",
    "what is out, of a channel with a rate, is in ready": """
        SELECT s.channel, s.out FROM live_slots s CROSS JOIN unnest(s.out) o
        JOIN message m ON (m.id, m.generation) = (o.id, o.generation)
        WHERE NOT EXISTS (SELECT FROM ready r WHERE (r.id, r.generation) = (o.id, o.generation))""",
    "channels with a limit have slots": """
        SELECT n.name FROM (
            SELECT c.name FROM channel c WHERE c.max_concurrency > 0 OR c.release_interval_us > 0
            UNION ALL SELECT '' FROM queue q WHERE q.max_concurrency IS NOT NULL) n
        WHERE NOT EXISTS (SELECT FROM slots s WHERE s.channel = n.name)""",
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


class Broken(NamedTuple):
    rule: str
    row: dict[str, Any]


def _broken(conn: psycopg.Connection, rules: dict[str, str]) -> list[Broken]:
    """The rows that break rules, in one snapshot."""
    queries = [
        f"SELECT {n} AS rule, to_jsonb(x) AS row FROM ({query}) x" for n, query in enumerate(rules.values())
    ]
    rows = conn.execute((PLACES + " UNION ALL ".join(queries)).encode()).fetchall()
    return [Broken(list(rules)[n], row) for n, row in rows]


def audit(conn: psycopg.Connection, *, but: tuple[str, ...] = ()) -> None:
    """Check what is true in every snapshot. `but`: prefixes of rules that this test leaves out."""
    broken = _broken(
        conn, {rule: query for rule, query in ALWAYS.items() if not rule.startswith(but or "\0")}
    )
    assert not broken, broken[:5]


def dispatch(conn: psycopg.Connection) -> int:
    """Dispatch until nothing is left; returns the number of calls."""
    calls = 1
    while conn.execute("SELECT dispatch()").fetchone() == (True,):
        calls += 1
        assert calls < 100_000, "dispatching does not finish"
    return calls


def dequeue(
    conn: psycopg.Connection, limit: int = 1, lease_ms: int = 30_000, consumer: str | None = None
) -> tuple[list[Delivery], int | None]:
    """The messages, and when to ask again."""
    rows = conn.execute("SELECT * FROM message_dequeue(%s, %s, %s)", (limit, lease_ms, consumer)).fetchall()
    again_at = rows.pop()[8] if rows and rows[-1][0] is None else None
    return [Delivery(*row[:8]) for row in rows], again_at


def check(conn: psycopg.Connection, *, but: tuple[str, ...] = ()) -> None:
    """Dispatch, then check every rule. `but`: prefixes of rules that this test leaves out."""
    dispatch(conn)
    rules = {rule: query for rule, query in (ALWAYS | AT_REST).items() if not rule.startswith(but or "\0")}
    broken = _broken(conn, rules)
    assert not broken, broken[:5]


def drain(conn: psycopg.Connection, *, limit: int = 100) -> list[Delivery]:
    """Deliver and complete everything that is due, in order, then check what is left (invariant 17)."""
    delivered: list[Delivery] = []
    for _ in range(100_000):
        dispatch(conn)
        messages, _again_at = dequeue(conn, limit)
        if not messages:
            break
        delivered += messages
        for message in messages:
            done = conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token)).fetchone()
            assert done == ("completed",), f"message {message.id} was {done}"
    check(conn)
    return delivered
