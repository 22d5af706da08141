"""Each audit query accepts a correct queue and finds the damage that it looks for."""

import psycopg
import pytest

from tests.faults.ends import AUDITS
from tests.invariants import dequeue, dispatch

# By the beginning of the rule's name.
DAMAGE = {
    "size: no channel": "UPDATE channel SET max_size = 1",
    "size: what was counted": "DELETE FROM departure",
    "7:": "UPDATE queue SET max_concurrency = 1",
    "15: one": "UPDATE message SET dedupe_key = 'key' WHERE channel = 'a'",
    "15: a living": "UPDATE dedupe SET until_at = 1",
    "15: who holds": "UPDATE dedupe SET until_at = NULL",
    "history:": "UPDATE finished SET id = (SELECT MAX(id) FROM message)",
}


@pytest.fixture
def at_work(conn: psycopg.Connection) -> psycopg.Connection:
    """One message completed, two leased, two waiting; limits, keys and a history."""
    conn.execute("SELECT * FROM queue_set(p_max_concurrency => 3, p_history => TRUE)")
    conn.execute("SELECT * FROM channel_set('a', p_max_size => 10)")
    for n in range(5):
        conn.execute("SELECT * FROM message_create('a', '', p_dedupe_key => %s)", (f"key {n}",))
    dispatch(conn)
    [first, *_], _ = dequeue(conn, 3)
    conn.execute("SELECT message_complete(%s, %s)", (first.id, first.token))
    dispatch(conn)
    return conn


def test_every_audit_is_tried() -> None:
    assert [next(begin for begin in DAMAGE if rule.startswith(begin)) for rule in AUDITS] == list(DAMAGE)


def test_a_queue_in_order_passes(at_work: psycopg.Connection) -> None:
    for rule, query in AUDITS.items():
        assert at_work.execute(query).fetchall() == [], rule


@pytest.mark.parametrize("rule", AUDITS)
def test_damage_is_found(at_work: psycopg.Connection, rule: str) -> None:
    damage = next(statement for begin, statement in DAMAGE.items() if rule.startswith(begin))
    at_work.execute(damage.encode())
    assert at_work.execute(AUDITS[rule]).fetchall() != []
