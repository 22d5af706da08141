"""Each audit query accepts a correct queue and finds the damage that it looks for."""

import psycopg
import pytest

from tests.faults.ends import AUDITS
from tests.invariants import dequeue, dispatch

# For each audit, by the beginning of its name, a statement that it must notice.
DAMAGE = {
    "size: no channel": "UPDATE channel SET max_size = 1",
    "size: the counted": "DELETE FROM departure",
    "7:": "UPDATE queue SET max_concurrency = 1",
    "15: one": "UPDATE message SET dedupe_key = 'key' WHERE channel = 'a'",
    "15: a living": "UPDATE dedupe SET until_at = 1",
    "15: a key": "UPDATE dedupe SET until_at = NULL",
    "history:": "UPDATE finished SET id = (SELECT MAX(id) FROM message)",
}


@pytest.fixture
def busy_queue(conn: psycopg.Connection) -> psycopg.Connection:
    """One message completed, two leased, two waiting; limits, keys and a history."""
    conn.execute("SELECT * FROM queue_set(p_max_concurrency => 3, p_history => TRUE)")
    conn.execute("SELECT * FROM channel_set('a', p_max_size => 10)")
    for n in range(5):
        conn.execute(
            "SELECT * FROM message_create('a', '', p_dedupe_key => %s, p_unique_for_ms => 600000)",
            (f"key {n}",),
        )
    dispatch(conn)
    [first, *_], _ = dequeue(conn, 3)
    conn.execute("SELECT message_complete(%s, %s)", (first.id, first.token))
    dispatch(conn)
    return conn


def test_every_audit_has_a_case() -> None:
    assert [next(prefix for prefix in DAMAGE if rule.startswith(prefix)) for rule in AUDITS] == list(DAMAGE)


def test_a_correct_queue_passes(busy_queue: psycopg.Connection) -> None:
    for rule, query in AUDITS.items():
        assert busy_queue.execute(query).fetchall() == [], rule


@pytest.mark.parametrize("rule", AUDITS)
def test_damage_is_found(busy_queue: psycopg.Connection, rule: str) -> None:
    damage = next(statement for prefix, statement in DAMAGE.items() if rule.startswith(prefix))
    busy_queue.execute(damage.encode())
    assert busy_queue.execute(AUDITS[rule]).fetchall() != []
