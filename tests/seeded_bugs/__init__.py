"""Sixteen bugs that queues have had, kept as small changes to the engine's text.

A test suite is worth what it catches: tests/e2e/test_seeded_bugs.py installs each of them and demands that
the tests named beside it fail. LONNYMQ_SEEDED_BUG names the one that the template database is made with.
"""

import os
from dataclasses import dataclass
from importlib.resources import files

import psycopg
from psycopg import sql

FUNCTIONS = files("lonnymq") / "sql" / "functions"


@dataclass(frozen=True)
class SeededBug:
    file: str
    right: str
    wrong: str
    caught_by: tuple[str, ...]
    before: str = ""  # statements that make room for it

    def text(self) -> str:
        text = (FUNCTIONS / self.file).read_text()
        assert self.right in text, f"{self.file} has changed: seed this bug anew"
        return self.before + text.replace(self.right, self.wrong)


BUGS = {
    "tokenless complete": SeededBug(
        "message_complete.sql",
        "WHERE id = p_id AND token = p_token",
        "WHERE id = p_id",
        ("tests/sql/test_finish.py::test_complete_once_by_who_holds_it",),
    ),
    "unguarded expiry": SeededBug(
        "lease_sweep.sql",
        "m.id = d.id AND COALESCE(m.leased AND m.lease_end_at <= p_now, FALSE)\n        FOR UPDATE",
        "m.id = d.id\n        FOR UPDATE",
        ("tests/sql/test_sweep.py::test_a_lease_extended_while_the_sweep_looked_is_left_alone",),
    ),
    "more than the limit": SeededBug(
        "message_dequeue_many.sql",
        "LEAST(u.cap, v_left / v_hungry",
        "LEAST(u.cap, v_left",
        ("tests/sql/test_dequeue.py::test_a_batch_is_shared_and_leftovers_go_to_those_that_have_more",),
    ),
    "NOW() in dequeue": SeededBug(
        "clock_ms.sql",
        "clock_timestamp()",
        "now()",
        ("tests/sql/test_dequeue.py::test_time_is_the_clocks_and_not_the_transactions",),
    ),
    "id cursor instead of snapshot": SeededBug(
        "tick_open.sql",
        "SELECT y, 0 FROM pg_snapshot_xip(p_snapshot) y WHERE",
        "SELECT y, 0 FROM pg_snapshot_xip(p_snapshot) y WHERE FALSE AND",
        ("tests/sql/test_create.py::test_a_commit_that_comes_late_is_seen",),
    ),
    "dropped unique index": SeededBug(
        "dedupe_take.sql",
        "VALUES (p_channel, p_key, p_id) ON CONFLICT (channel, key) DO NOTHING;",
        "SELECT p_channel, p_key, p_id WHERE NOT EXISTS (\n"
        "            SELECT FROM dedupe d WHERE d.channel = p_channel AND d.key = p_key);",
        ("tests/faults/test_keys.py::test_two_producers_race_for_a_key",),
        before="ALTER TABLE dedupe DROP CONSTRAINT dedupe_pkey;\n",
    ),
    "stale head": SeededBug(
        "ring_place.sql",
        "LEAST(k.head, k.lo) AS new_head",
        "COALESCE(k.head, k.lo) AS new_head",
        ("tests/sql/test_create.py::test_urgent_newcomers_are_served_first_and_hide_nothing",),
    ),
    "lost wake": SeededBug(
        "ring_place.sql",
        "FROM placed p WHERE p.is_held) h",
        "FROM placed p WHERE FALSE) h",
        ("tests/sql/test_sweep.py::test_a_wake_for_a_channel_that_a_consumer_holds_is_kept",),
    ),
    "early release": SeededBug(
        "message_dequeue_many.sql",
        "WHERE s.rn <= s.look AND s.at <= v_now AND m.ctid",
        "WHERE s.rn <= s.look AND m.ctid",
        ("tests/sql/test_create.py::test_urgent_before_ordinary_before_scheduled",),
    ),
    "early release of one": SeededBug(
        "message_dequeue.sql",
        " AND y.dequeue_at <= c.now FOR UPDATE",
        " FOR UPDATE",
        ("tests/sql/test_dequeue.py::test_one_message_is_not_released_before_its_time",),
    ),
    "one more than the limit": SeededBug(
        "message_dequeue.sql",
        "r.n < x.max_concurrency AND",
        "TRUE AND",
        ("tests/sql/test_channel.py::test_one_by_one_up_to_the_limit",),
    ),
    "asynchronous create": SeededBug(
        "message_create.sql",
        "    INSERT INTO wake (",
        "    PERFORM set_config('synchronous_commit', 'off', TRUE); INSERT INTO wake (",
        ("tests/sql/test_create.py::test_creates_commit_as_durably_as_the_session_asks",),
    ),
    "unsorted locks": SeededBug(
        "message_complete_many.sql",
        "    WITH done AS (",
        "    PERFORM FROM unnest(p_ids) u (id)"
        " CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = u.id OFFSET 0 FOR UPDATE) x;\n"
        "    WITH done AS (",
        ("tests/sql/test_finish.py::test_batches_lock_in_the_order_of_their_ids",),
    ),
    "unsorted keys": SeededBug(
        "message_admit.sql",
        'ORDER BY u.key COLLATE "C", u.ord) FILTER',
        "ORDER BY u.ord) FILTER",
        ("tests/faults/test_keys.py::test_batches_take_their_keys_in_order",),
    ),
    "a tail too low": SeededBug(
        "ring_place.sql",
        "OR p.new_head IS NOT NULL AND p.new_tail IS DISTINCT FROM p.tail_at",
        "",
        ("tests/sql/test_create.py::test_a_gap_begins_behind_all_that_waits",),
    ),
    "counter drift": SeededBug(
        "running_count.sql",
        "CROSS JOIN LATERAL (SELECT * FROM message m"
        " WHERE m.id = i.i AND COALESCE(m.leased, FALSE) OFFSET 0) m",
        "LEFT JOIN LATERAL (SELECT * FROM message m WHERE m.id = i.i AND m.leased OFFSET 0) m ON TRUE",
        ("tests/sql/test_channel.py::test_many_turns_under_a_limit_do_not_use_it_up",),
    ),
}


def apply_from_env(conn: psycopg.Connection, schema: str) -> None:
    name = os.environ.get("LONNYMQ_SEEDED_BUG")
    if name:
        with conn.transaction():
            conn.execute(sql.SQL("SET LOCAL search_path TO {}, pg_temp").format(sql.Identifier(schema)))
            conn.execute(BUGS[name].text().encode())
