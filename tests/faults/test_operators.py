"""Calls of operators on a busy queue do not deadlock with each other."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from tests.clock import FakeClock
from tests.database import Connect, until_waiting
from tests.faults.test_keys import until_waiting_or_done
from tests.invariants import check, dequeue, dispatch


def create_dead_letter(conn: psycopg.Connection, channel: str) -> int:
    """Create a message, let it use up its attempts, and return its id."""
    conn.execute("SELECT message_create(%s, 'poison', p_max_attempts => 1)", (channel,))
    dispatch(conn)
    [message], _ = dequeue(conn)
    conn.execute("SELECT message_retry(%s, %s, p_error => 'poison')", (message.id, message.token))
    return message.id


def call(conn: psycopg.Connection, query: str, *parameters: object) -> Callable[[], list[tuple[Any, ...]]]:
    conn.execute("SET statement_timeout TO '20s'")
    return lambda: conn.execute(query.encode(), parameters).fetchall()


def test_a_channel_is_deleted_while_its_dead_letters_are_retried(connect: Connect) -> None:
    """Both calls lock the channel's size and the dead message."""
    conn, producer, deleter, retrier = connect(), connect(autocommit=False), connect(), connect()
    conn.execute("SELECT * FROM channel_set('a', p_max_size => 10)")
    dead = create_dead_letter(conn, "a")
    producer.execute("SELECT * FROM message_create('a', 'open')")
    with ThreadPoolExecutor() as pool:
        deleted = pool.submit(call(deleter, "SELECT result FROM channel_delete('a', TRUE)"))
        until_waiting(conn, deleter)
        retried = pool.submit(call(retrier, "SELECT result FROM dead_retry(%s)", [dead]))
        until_waiting(conn, retrier)
        producer.commit()
        assert deleted.result(30) in ([("deleted",)], [("more",)])
        assert retried.result(30) in ([("not_found",)], [("retried",)])
    check(conn)


def test_a_channel_is_deleted_while_its_keys_are_taken_again(connect: Connect) -> None:
    """Both calls lock the free keys in the same order, not in the order of the table or of an index.

    The planner would prefer one of those two.
    """
    conn, holder, deleter, batch = connect(), connect(autocommit=False), connect(), connect()
    clock = FakeClock(conn)
    keys = [f"{n:03}" for n in range(200)]
    for key in reversed(keys):
        conn.execute("SELECT * FROM message_create('a', '', p_dedupe_key => %s)", (key,))
    dispatch(conn)
    while messages := dequeue(conn, len(keys))[0]:
        for message in messages:
            conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
            clock.advance(1)
        dispatch(conn)
    clock.advance(3_600_000)
    conn.execute("ANALYZE dedupe")
    holder.execute("SELECT FROM dedupe WHERE key = %s FOR UPDATE", (keys[-1],))
    query = """
        SELECT result
        FROM message_create_many(ARRAY['a', 'a'], ARRAY['', '']::BYTEA[], p_dedupe_keys => %s)"""
    with ThreadPoolExecutor() as pool:
        deleted = pool.submit(call(deleter, "SELECT result FROM channel_delete('a')"))
        until_waiting_or_done(conn, deleter, deleted)
        made = pool.submit(call(batch, query, [keys[0], keys[-1]]))
        until_waiting_or_done(conn, batch, made)
        holder.rollback()
        assert deleted.result(30) in ([("deleted",)], [("not_empty",)])
        assert made.result(30) == [("created",), ("created",)]
    check(conn)


def test_a_key_taken_again_while_its_channel_is_deleted_is_kept(connect: Connect) -> None:
    """Invariant 15: a deletion that began before the message existed must not remove its key."""
    conn, producer, deleter = connect(), connect(autocommit=False), connect()
    clock = FakeClock(conn)
    query = "SELECT result FROM message_create('a', '', p_dedupe_key => 'key')"
    conn.execute(query)
    dispatch(conn)
    [message], _ = dequeue(conn)
    conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
    clock.advance(3_600_000)
    assert producer.execute(query).fetchone() == ("created",)
    with ThreadPoolExecutor() as pool:
        deleted = pool.submit(call(deleter, "SELECT result FROM channel_delete('a')"))
        until_waiting_or_done(conn, deleter, deleted)
        producer.commit()
        assert deleted.result(30) in ([("deleted",)], [("not_empty",)])
    assert conn.execute(query).fetchone() == ("duplicate",)
    check(conn)
