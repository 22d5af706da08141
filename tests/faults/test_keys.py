"""Producers that use one dedupe key at the same time: one message is created, and there is no deadlock."""

import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest

from tests.database import Connect, until_waiting
from tests.invariants import check, dequeue, dispatch

Rows = list[tuple[Any, ...]]


def create(conn: psycopg.Connection, channel: str, *keys: str) -> Rows:
    """One message per key, in one call."""
    return conn.execute(
        "SELECT * FROM message_create_many(%s, %s, p_dedupe_keys => %s)",
        ([channel] * len(keys), [key.encode() for key in keys], list(keys)),
    ).fetchall()


def until_waiting_or_done(
    watcher: psycopg.Connection, waiter: psycopg.Connection, call: Future[Rows]
) -> None:
    query = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
    deadline = time.monotonic() + 10
    while watcher.execute(query, (waiter.info.backend_pid,)).fetchone() != ("Lock",) and not call.done():
        assert time.monotonic() < deadline, "the call neither waits nor returns"
        time.sleep(0.005)


@pytest.mark.parametrize("max_size", [0, 10])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_two_producers_race_for_a_key(connect: Connect, end: str, max_size: int) -> None:
    """Invariant 15: the second producer waits until the first commits or rolls back."""
    conn, first, second = connect(), connect(autocommit=False), connect()
    conn.execute("SELECT * FROM channel_set('a', p_max_size => %s)", (max_size,))
    [(first_id, result)] = create(first, "a", "key")
    assert result == "created"
    with ThreadPoolExecutor() as pool:
        call = pool.submit(create, second, "a", "key")
        until_waiting_or_done(conn, second, call)
        first.execute(end)
        [(id_, result)] = call.result(10)
    assert result == ("duplicate" if end == "COMMIT" else "created")
    assert (id_ == first_id) == (end == "COMMIT")
    assert conn.execute("SELECT id FROM message").fetchall() == [(id_,)]
    check(conn)


def test_many_producers_race_for_a_key(connect: Connect) -> None:
    racers = [connect() for _ in range(6)]
    with ThreadPoolExecutor(len(racers)) as pool:
        for key in (f"key {n}" for n in range(50)):
            calls = [pool.submit(create, racer, "a", key) for racer in racers]
            answers = [call.result(10)[0] for call in calls]
            assert len({id_ for id_, _ in answers}) == 1, "all callers get the same message"
            assert sorted(result for _, result in answers) == ["created"] + ["duplicate"] * 5
    check(racers[0])


@pytest.mark.parametrize("max_size", [0, 10])
def test_batches_take_their_keys_in_order(connect: Connect, max_size: int) -> None:
    """A batch that waits for the lowest key holds no other key, whatever its order."""
    conn, holder, batch, other = connect(), connect(autocommit=False), connect(), connect(autocommit=False)
    create(holder, "a", "1")
    conn.execute("SELECT * FROM channel_set('a', p_max_size => %s)", (max_size,))
    other.execute("SET lock_timeout TO '5s'")
    batch.execute("SET statement_timeout TO '20s'")
    with ThreadPoolExecutor() as pool:
        call = pool.submit(create, batch, "a", "2", "1")
        until_waiting(conn, batch)
        if not max_size:
            assert [row[1] for row in create(other, "a", "2")] == ["created"]
            other.rollback()
        holder.commit()
        assert [row[1] for row in call.result(10)] == ["created", "duplicate"]
    check(conn)


def test_batches_in_opposite_orders_do_not_deadlock(connect: Connect) -> None:
    """Sizes and keys of several channels, each batch in another order: no deadlock, and no key twice."""
    conn, racers = connect(), [connect() for _ in range(4)]
    for channel in ("b", "d"):
        conn.execute("SELECT * FROM channel_set(%s, p_max_size => 100000)", (channel,))
    channels = ["a", "b", "c", "d"] * 2
    made: list[int] = []
    with ThreadPoolExecutor(len(racers)) as pool:
        for turn in range(40):
            named = [(channel, f"{turn}/{place}") for place, channel in enumerate(channels)]
            orders = (named, named[::-1], named[4:] + named[:4], named[::2] + named[1::2])
            calls = [pool.submit(_create_named, *one) for one in zip(racers, orders, strict=True)]
            made += [row[0] for call in calls for row in call.result(20) if row[1] == "created"]
    assert len(made) == 40 * len(channels)
    assert conn.execute("SELECT COUNT(DISTINCT (channel, dedupe_key)) FROM message").fetchone() == (
        len(made),
    )
    check(conn)


def _create_named(conn: psycopg.Connection, named: list[tuple[str, str]]) -> Rows:
    channels, keys = [channel for channel, _ in named], [key for _, key in named]
    contents = [b""] * len(named)
    query = "SELECT * FROM message_create_many(%s, %s, p_dedupe_keys => %s)"
    return conn.execute(query, (channels, contents, keys)).fetchall()


# Consumers read what is committed, and wait for no producer.
WRITE = "INSERT INTO change (document) VALUES (%s)"
SEE = """
    UPDATE document SET seen = GREATEST(seen, (SELECT COUNT(*) FROM change WHERE document = name))
    WHERE name = %s"""
MISSED = """
    SELECT name, seen, (SELECT COUNT(*) FROM change WHERE document = name) FROM document
    WHERE seen <> (SELECT COUNT(*) FROM change WHERE document = name)"""
DOCUMENTS = [f"document {n}" for n in range(40)]
PRODUCERS = 4


def test_a_run_sees_every_write_before_its_enqueue(connect: Connect) -> None:
    """Producers change a document and enqueue "process this" at the same time; some roll back.

    A message holds its key while it waits. However starts, duplicates and commits interleave, the last run of
    a document starts after the last committed change.
    """
    conn = connect()
    conn.execute("CREATE TABLE document (name TEXT PRIMARY KEY, seen INT DEFAULT 0)")
    conn.execute("CREATE TABLE change (document TEXT)")
    conn.cursor().executemany("INSERT INTO document (name) VALUES (%s)", [(name,) for name in DOCUMENTS])
    results: Counter[str] = Counter()
    is_over = threading.Event()
    together = threading.Barrier(PRODUCERS)
    with ThreadPoolExecutor(PRODUCERS + 2) as pool:
        producers = [
            pool.submit(_change, connect(autocommit=False), Random(seed), together, results)
            for seed in range(PRODUCERS)
        ]
        consumers = [pool.submit(_process, connect(), is_over) for _ in range(2)]
        for producer in producers:
            producer.result(120)
        is_over.set()
        for consumer in consumers:
            consumer.result(120)
    assert conn.execute(MISSED).fetchall() == []
    assert results["duplicate"] >= 10 <= results["created"], results
    check(conn)


def _change(
    conn: psycopg.Connection, random: Random, together: threading.Barrier, results: Counter[str]
) -> None:
    for name in DOCUMENTS:
        together.wait(100)
        conn.execute(WRITE, (name,))
        [(_, result)] = conn.execute(
            "SELECT * FROM message_create('a', convert_to(%s, 'UTF8'), p_dedupe_key => %s)", (name, name)
        ).fetchall()
        if result == "duplicate":
            conn.execute("SELECT pg_sleep(%s)", (random.uniform(0, 0.05),))  # stay open while consumers run
        if random.random() < 0.2:
            conn.rollback()
        else:
            conn.commit()
            results[result] += 1


def _process(conn: psycopg.Connection, is_over: threading.Event) -> None:
    """Until there are no messages, and no more will come."""
    deadline = time.monotonic() + 100
    while True:
        is_last = is_over.is_set()
        dispatch(conn)
        messages, _ = dequeue(conn, 2, 60_000)
        for message in messages:
            conn.execute(SEE, (message.content.decode(),))
            conn.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
        if is_last and conn.execute("SELECT COUNT(*) FROM message").fetchone() == (0,):
            return
        assert time.monotonic() < deadline, "messages are left"
