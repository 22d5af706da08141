"""Bugs that queues have had, as small changes to the text of the engine's functions.

tests/e2e/test_seeded_bugs.py installs each bug and expects the tests in `caught_by` to fail. The environment
variable LONNYMQ_SEEDED_BUG names the bug that is installed in the template database.
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
    before: str = ""  # statements to run first

    def text(self) -> str:
        text = (FUNCTIONS / self.file).read_text()
        assert self.right in text, f"{self.file} has changed: adapt the seeded bug"
        return self.before + text.replace(self.right, self.wrong)


BUGS = {
    "tokenless complete": SeededBug(
        "core/message_complete.sql",
        "WHERE x.token = p_token AND x.last_id >= p_id ORDER BY x.last_id LIMIT 1",
        "WHERE x.last_id >= p_id ORDER BY x.last_id LIMIT 1",
        ("tests/sql/test_finish.py::test_only_the_holder_completes_and_only_once",),
    ),
    "a token that outlives its lease": SeededBug(
        "core/message_return.sql",
        "generation = m.generation + 1",
        "generation = m.generation",
        ("tests/sql/test_dequeue.py::test_a_lease_that_ran_out_comes_back_to_its_place",),
    ),
    "unguarded expiry": SeededBug(
        "dispatch/leases_sweep.sql",
        "LIMIT p_limit FOR UPDATE SKIP LOCKED) l)",
        "LIMIT p_limit) l)",
        ("tests/sql/test_sweep.py::test_a_lease_extended_while_the_sweep_looked_is_left_alone",),
    ),
    "more than the limit": SeededBug(
        "core/ready_take.sql",
        "LIMIT p_limit FOR UPDATE SKIP LOCKED",
        "LIMIT p_limit + 1 FOR UPDATE SKIP LOCKED",
        ("tests/sql/test_dequeue.py::test_a_batch_is_shared_and_leftovers_go_to_those_that_have_more",),
    ),
    "NOW() in dequeue": SeededBug(
        "core/clock_ms.sql",
        "clock_timestamp()",
        "now()",
        ("tests/sql/test_dequeue.py::test_leases_start_at_the_clock_and_not_at_the_transaction",),
    ),
    "id cursor instead of snapshot": SeededBug(
        "dispatch/tick_open_transactions.sql",
        "FROM pg_snapshot_xip(p_snapshot) y\n        WHERE",
        "FROM pg_snapshot_xip(p_snapshot) y\n        WHERE FALSE AND",
        ("tests/sql/test_create.py::test_a_commit_that_comes_late_is_seen",),
    ),
    "dropped unique index": SeededBug(
        "limits/dedupe_take.sql",
        "VALUES (p_channel, p_key, v_turn, p_id, p_unique_for_ms, v_check_at) ON CONFLICT DO NOTHING;",
        "SELECT p_channel, p_key, v_turn, p_id, p_unique_for_ms, v_check_at WHERE NOT EXISTS (\n"
        "            SELECT FROM dedupe d WHERE d.channel = p_channel AND d.key = p_key);",
        ("tests/faults/test_keys.py::test_two_producers_race_for_a_key",),
        before="ALTER TABLE dedupe DROP CONSTRAINT dedupe_pkey;\n",
    ),
    "coalesced with a message that starts": SeededBug(
        "limits/dedupe_may_start.sql",
        "IF d.was_locked IS NOT TRUE THEN",
        "IF TRUE THEN",
        ("tests/isolation/test_waiting_keys.py::test_a_message_does_not_start_while_a_create_counts_on_it",),
    ),
    "stale head": SeededBug(
        "dispatch/channel_states.sql",
        "IF v_marks IS NOT NULL THEN",
        "IF FALSE THEN",
        ("tests/sql/test_create.py::test_urgent_newcomers_are_served_first_and_hide_nothing",),
    ),
    "lost rollback": SeededBug(
        "dispatch/lane_measure.sql",
        "FROM unnest(v_locked) h ON CONFLICT DO NOTHING;",
        "FROM unnest(v_locked) h WHERE FALSE ON CONFLICT DO NOTHING;",
        ("tests/sql/test_sweep.py::test_a_dequeue_left_open_is_passed_by_and_not_forgotten",),
    ),
    "early release": SeededBug(
        "dispatch/lanes_dispatch.sql",
        "array_agg(e) FILTER (WHERE e.at <= p_now) AS due",
        "array_agg(e) AS due",
        ("tests/sql/test_create.py::test_urgent_before_ordinary_before_scheduled",),
    ),
    "one more than the limit": SeededBug(
        "dispatch/channel_room.sql",
        "p.max_concurrency - COALESCE(cardinality(s.busy), 0)",
        "p.max_concurrency + 1 - COALESCE(cardinality(s.busy), 0)",
        ("tests/sql/test_channel.py::test_one_by_one_up_to_the_limit",),
    ),
    "a token for each entry in ready, again": SeededBug(
        "dispatch/channel_room.sql",
        "                - x.out)::INT",
        "                )::INT",
        ("tests/sql/test_rates.py::test_what_is_ready_has_its_token_already",),
    ),
    "asynchronous create": SeededBug(
        "core/message_create.sql",
        "    SELECT s.content_max_bytes,",
        "    PERFORM set_config('synchronous_commit', 'off', TRUE);\n    SELECT s.content_max_bytes,",
        ("tests/sql/test_create.py::test_creates_commit_as_durably_as_the_session_asks",),
    ),
    "unsorted locks": SeededBug(
        "core/message_complete_many.sql",
        "    IF v_token = ALL (p_tokens)",
        "    PERFORM FROM unnest(p_ids) u (id)"
        " CROSS JOIN LATERAL (SELECT FROM message m WHERE m.id = u.id OFFSET 0 FOR UPDATE) x;\n"
        "    IF v_token = ALL (p_tokens)",
        ("tests/sql/test_finish.py::test_batches_lock_in_the_order_of_their_ids",),
    ),
    "unsorted keys": SeededBug(
        "core/message_admit.sql",
        'ORDER BY u.key COLLATE "C", u.ord) FILTER',
        "ORDER BY u.ord) FILTER",
        ("tests/faults/test_keys.py::test_batches_take_their_keys_in_order",),
    ),
    "a range too short": SeededBug(
        "dispatch/ranges_add.sql",
        "longer AS (SELECT MAX(",
        "longer AS (SELECT MIN(",
        ("tests/sql/test_lines.py::test_ranges_cover_what_was_added",),
    ),
    "counter drift": SeededBug(
        "dispatch/stubs_alive.sql",
        "WHERE m.id = s.id AND m.generation = s.generation OFFSET 0) m",
        "WHERE m.id <= s.id OR TRUE LIMIT 1) m",
        ("tests/sql/test_channel.py::test_many_turns_under_a_limit_do_not_use_it_up",),
    ),
}


def apply_from_env(conn: psycopg.Connection, schema: str) -> None:
    name = os.environ.get("LONNYMQ_SEEDED_BUG")
    if name:
        with conn.transaction():
            conn.execute(sql.SQL("SET LOCAL search_path TO {}, pg_temp").format(sql.Identifier(schema)))
            conn.execute(BUGS[name].text().encode())
