"""Concurrent transactions on one batch: of those that finish its last messages, one creates the callback."""

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import psycopg
import pytest

from tests import invariants
from tests.isolation.shared_database import (
    SharedDatabase,
    dispatch,
    end,
    fail_on_lock_wait,
    take,
    until,
    value,
    wait_until_expired,
)

ENDINGS = ["commit", "rollback"]
OPEN = "SELECT batch_open('import', 'callbacks', 'complete', NULL, 'callbacks', 'failure')"


def opened(conn: psycopg.Connection) -> int:
    return int(value(conn, OPEN))


def add(conn: psycopg.Connection, batch_id: int, count: int = 1) -> None:
    conn.execute(
        "SELECT message_create_many(%s, %s, p_batch_ids => %s)",
        (["a"] * count, [b"work"] * count, [batch_id] * count),
    )


def close(conn: psycopg.Connection, batch_id: int) -> Any:
    return value(conn, "SELECT batch_close(%s)", batch_id)


def complete(conn: psycopg.Connection, *deliveries: invariants.Delivery) -> list[str]:
    rows = conn.execute(
        "SELECT result FROM message_complete_many(%s, %s)",
        ([delivery.id for delivery in deliveries], [delivery.token for delivery in deliveries]),
    )
    return [result for (result,) in rows]


def leased(conn: psycopg.Connection, count: int, lease_ms: int = 3_600_000) -> list[invariants.Delivery]:
    dispatch(conn)
    deliveries = take(conn, count, lease_ms)
    assert len(deliveries) == count
    return deliveries


def counts(conn: psycopg.Connection, batch_id: int) -> dict[str, int]:
    row = conn.execute(
        "SELECT waiting, leased, completed, dead, cancelled FROM batch_get(%s)", (batch_id,)
    ).fetchone()
    assert row is not None
    names = ("waiting", "leased", "completed", "dead", "cancelled")
    return {name: count for name, count in zip(names, row, strict=True) if count}


def callbacks(conn: psycopg.Connection) -> list[bytes]:
    query = "SELECT content FROM message WHERE channel = 'callbacks' ORDER BY id"
    return [content for (content,) in conn.execute(query)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_two_finish_the_last_messages(database: SharedDatabase, ending: str) -> None:
    """The second waits for the first, and sees what that did."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    batch_id = opened(observer)
    add(observer, batch_id, 2)
    close(observer, batch_id)
    first, second = leased(observer, 2)
    one.execute("BEGIN")
    assert complete(one, first) == ["completed"]
    last = database.start(partial(complete, two, second))
    until(lambda: database.is_waiting(two, one), "the second to wait for the first")
    end(one, ending)
    assert last.result(timeout=10) == ["completed"]
    if ending == "rollback":
        assert (counts(observer, batch_id), callbacks(observer)) == ({"leased": 1, "completed": 1}, [])
        assert complete(observer, first) == ["completed"]
    assert (counts(observer, batch_id), callbacks(observer)) == ({"completed": 2}, [b"complete"])
    invariants.check(observer)


@pytest.mark.parametrize("ending", ENDINGS)
def test_two_messages_die_at_once(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    batch_id = opened(observer)
    add(observer, batch_id, 3)
    first, second, _ = leased(observer, 3)
    query = "SELECT message_retry(%s, %s, p_error => 'no', p_is_final => TRUE)"
    one.execute("BEGIN")
    value(one, query, first.id, first.token)
    died = database.start(partial(value, two, query, second.id, second.token))
    until(lambda: database.is_waiting(two, one), "the second to wait for the first")
    end(one, ending)
    assert died.result(timeout=10) == "dead"
    assert callbacks(observer) == [b"failure"]
    failed = value(observer, "SELECT failed_id FROM batch_get(%s)", batch_id)
    assert failed == (first.id if ending == "commit" else second.id)
    invariants.check(observer)


@pytest.mark.parametrize("ending", ENDINGS)
def test_closing_meets_the_last_finish(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    batch_id = opened(observer)
    add(observer, batch_id)
    [delivery] = leased(observer, 1)
    one.execute("BEGIN")
    complete(one, delivery)
    closing = database.start(partial(close, two, batch_id))
    until(lambda: database.is_waiting(two, one), "the close to wait for the finish")
    end(one, ending)
    assert closing.result(timeout=10) == "closed"
    if ending == "rollback":
        assert callbacks(observer) == []
        complete(observer, delivery)
    assert (counts(observer, batch_id), callbacks(observer)) == ({"completed": 1}, [b"complete"])
    invariants.check(observer)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_last_finish_meets_closing(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    batch_id = opened(observer)
    add(observer, batch_id)
    [delivery] = leased(observer, 1)
    one.execute("BEGIN")
    close(one, batch_id)
    finishing = database.start(partial(complete, two, delivery))
    until(lambda: database.is_waiting(two, one), "the finish to wait for the close")
    end(one, ending)
    assert finishing.result(timeout=10) == ["completed"]
    if ending == "rollback":
        assert callbacks(observer) == []
        close(observer, batch_id)
    assert (counts(observer, batch_id), callbacks(observer)) == ({"completed": 1}, [b"complete"])
    invariants.check(observer)


@pytest.mark.parametrize("ending", ENDINGS)
def test_closing_waits_for_whoever_adds(database: SharedDatabase, ending: str) -> None:
    """Otherwise the batch would finish before the messages that are added."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    batch_id = opened(observer)
    one.execute("BEGIN")
    add(one, batch_id, 2)
    closing = database.start(partial(close, two, batch_id))
    until(lambda: database.is_waiting(two, one), "the close to wait")
    end(one, ending)
    assert closing.result(timeout=10) == "closed"
    added = {"waiting": 2} if ending == "commit" else {}
    assert counts(observer, batch_id) == added
    assert callbacks(observer) == ([] if added else [b"complete"])
    invariants.check(observer)


@pytest.mark.parametrize("ending", ENDINGS)
def test_adding_meets_closing(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    batch_id = opened(observer)
    one.execute("BEGIN")
    close(one, batch_id)
    adding = database.start(partial(add, two, batch_id))
    until(lambda: database.is_waiting(two, one), "the create to wait")
    end(one, ending)
    if ending == "commit":
        refusal = adding.exception(timeout=10)
        assert isinstance(refusal, psycopg.Error)
        assert refusal.sqlstate == "LM018"
    else:
        adding.result(timeout=10)
    assert counts(observer, batch_id) == ({} if ending == "commit" else {"waiting": 1})
    invariants.check(observer)


def test_an_open_transaction_that_adds_delays_nobody_else(database: SharedDatabase) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    batch_id = opened(observer)
    add(observer, batch_id, 2)
    first, second = leased(observer, 2)
    one.execute("BEGIN")
    add(one, batch_id)
    with fail_on_lock_wait(two):
        add(two, batch_id)
        complete(two, first)
        value(two, "SELECT message_retry(%s, %s, p_is_final => TRUE)", second.id, second.token)
    end(one, "commit")
    assert counts(observer, batch_id) == {"waiting": 2, "completed": 1, "dead": 1}
    invariants.check(observer)


def test_a_dispatch_does_not_wait_for_a_batch(database: SharedDatabase) -> None:
    """A message that died when its lease ran out is counted as soon as the batch is free again."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    observer.execute("SELECT queue_set(p_max_attempts => 1)")
    batch_id = opened(observer)
    add(observer, batch_id, 2)
    close(observer, batch_id)
    [kept] = leased(observer, 1)
    other = int(value(observer, "SELECT id FROM message_create('b', 'dies, too')"))
    expired = leased(observer, 2, lease_ms=1)
    one.execute("BEGIN")
    complete(one, kept)
    wait_until_expired(observer, expired)
    with fail_on_lock_wait(two):
        dispatch(two)
    assert conn_ids(observer, "SELECT id FROM dead") == [other]
    assert callbacks(observer) == []
    end(one, "commit")
    until(lambda: dispatch(two) > 0 and not conn_ids(observer, "SELECT id FROM lease_ids"), "the sweep")
    assert (counts(observer, batch_id), callbacks(observer)) == (
        {"completed": 1, "dead": 1},
        [b"failure", b"complete"],
    )
    invariants.check(observer)


def conn_ids(conn: psycopg.Connection, query: str) -> list[int]:
    leases = "WITH lease_ids AS (SELECT s.id FROM lease CROSS JOIN unnest(stubs) s) "
    return [found for (found,) in conn.execute((leases + query).encode())]


@pytest.mark.parametrize("with_history", [False, True])
def test_a_lease_is_split_while_a_finish_waits(database: SharedDatabase, *, with_history: bool) -> None:
    """The row that the finish has found then has another message, whose lease must stay."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    observer.execute("SELECT queue_set(p_history => %s)", (with_history,))
    batch_id = opened(observer)
    add(observer, batch_id, 3)
    [held] = leased(observer, 1)
    first, second = leased(observer, 2)
    assert first.id < second.id
    assert first.token == second.token
    one.execute("BEGIN")
    complete(one, held)
    finishing = database.start(partial(value, two, "SELECT message_complete(%s, %s)", first.id, first.token))
    until(lambda: database.is_waiting(two, one), "the finish to wait")
    query = "SELECT result FROM message_extend(%s, %s, 7200000)"
    assert value(observer, query, second.id, second.token) == "extended"
    end(one, "commit")
    assert finishing.result(timeout=10) == "completed"
    assert counts(observer, batch_id) == {"leased": 1, "completed": 2}
    invariants.check(observer)
    assert complete(observer, second) == ["completed"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_snapshot_that_is_too_old_is_told(database: SharedDatabase, level: str) -> None:
    """It cannot know whether its message is the last."""
    observer, one = database.session("observer"), database.session("one")
    batch_id = opened(observer)
    add(observer, batch_id, 2)
    close(observer, batch_id)
    first, second = leased(observer, 2)
    one.execute(f"BEGIN ISOLATION LEVEL {level}")
    one.execute("SELECT FROM message")
    complete(observer, first)
    with pytest.raises(psycopg.errors.SerializationFailure):
        complete(one, second)
    end(one, "rollback")
    assert complete(one, second) == ["completed"]
    assert (counts(observer, batch_id), callbacks(observer)) == ({"completed": 2}, [b"complete"])
    invariants.check(observer)


def test_deleting_a_channel_locks_batches_in_their_order(database: SharedDatabase) -> None:
    """One of its messages is leased and belongs to the older batch, one waits and belongs to the newer."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    older, newer = opened(observer), opened(observer)
    for batch_id in (older, newer):
        observer.execute("SELECT message_create('other', '', p_batch_id => %s)", (batch_id,))
    add(observer, older)
    first, second, mine = sorted(leased(observer, 3), key=lambda delivery: delivery.id)
    add(observer, newer)
    assert mine.channel == "a"
    one.execute("BEGIN")
    assert complete(one, second) == ["completed"]
    deleting = database.start(partial(value, two, "SELECT result FROM channel_delete('a', TRUE)"))
    until(lambda: database.is_waiting(two, one), "the delete to wait")
    assert complete(one, first) == ["completed"]
    end(one, "commit")
    assert deleting.result(timeout=10) == "deleted"
    assert counts(observer, older) == counts(observer, newer) == {"completed": 1, "cancelled": 1}


def test_cancelling_waits_for_whoever_finishes(database: SharedDatabase) -> None:
    """If the last message is finished first, its callback exists, and there is nothing to cancel."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    batch_id = opened(observer)
    add(observer, batch_id)
    close(observer, batch_id)
    [delivery] = leased(observer, 1)
    one.execute("BEGIN")
    complete(one, delivery)
    cancelling = database.start(partial(value, two, "SELECT result FROM batch_cancel(%s)", batch_id))
    until(lambda: database.is_waiting(two, one), "the cancel to wait")
    end(one, "commit")
    assert cancelling.result(timeout=10) == "finished"
    assert callbacks(observer) == [b"complete"]
    invariants.check(observer)


# Every call that locks a batch, all at once, each in its own transaction.


class Crowd:
    def __init__(self, database: SharedDatabase, seconds: float, batches: list[int]) -> None:
        self.database = database
        self.deadline = time.monotonic() + seconds
        self.batches = batches

    def add(self, conn: psycopg.Connection, chance: random.Random) -> None:
        ids = [chance.choice(self.batches) for _ in range(6)]
        conn.execute(
            "SELECT message_create_many(%s, %s, p_batch_ids => %s)",
            ([chance.choice("ab") for _ in ids], [b"work"] * len(ids), ids),
        )

    def finish(self, conn: psycopg.Connection, chance: random.Random) -> None:
        conn.execute("SELECT dispatch()")
        deliveries = take(conn, 6)
        chance.shuffle(deliveries)
        if not deliveries:
            return
        ids, tokens = [each.id for each in deliveries], [each.token for each in deliveries]
        if chance.random() < 0.7:
            conn.execute("SELECT message_complete_many(%s, %s)", (ids, tokens))
        else:
            errors = ["bad"] * len(ids)
            conn.execute("SELECT message_retry_many(%s, %s, p_errors => %s)", (ids, tokens, errors))

    def retry(self, conn: psycopg.Connection, chance: random.Random) -> None:
        ids = [message_id for (message_id,) in conn.execute("SELECT id FROM dead").fetchall()]
        chance.shuffle(ids)
        if ids:
            conn.execute("SELECT dead_retry(%s)", (ids[:6],))

    def cancel(self, conn: psycopg.Connection, chance: random.Random) -> None:
        query = "SELECT id FROM message WHERE batch_id IS NOT NULL"
        ids = [message_id for (message_id,) in conn.execute(query).fetchall()]
        chance.shuffle(ids)
        if ids:
            conn.execute("SELECT message_cancel_many(%s)", (ids[:4],))

    def open(self, conn: psycopg.Connection, chance: random.Random) -> None:
        """Open a batch whose callback belongs to another one, fill it, and close or cancel it."""
        outer = chance.choice(self.batches)
        inner = int(
            value(
                conn,
                "SELECT batch_open('inner', 'a', 'callback', jsonb_build_object('batch_id', %s::BIGINT))",
                outer,
            )
        )
        add(conn, inner, 2)
        if chance.random() < 0.5:
            close(conn, inner)
        else:
            while value(conn, "SELECT result FROM batch_cancel(%s, 3)", inner) == "more":
                pass

    def start(self, name: str, seed: int) -> "Future[int]":
        conn, chance = self.database.session(f"crowd {seed}"), random.Random(seed)
        call: Callable[[psycopg.Connection, random.Random], None] = getattr(self, name)

        def run() -> int:
            conn.execute("SET deadlock_timeout = '50ms'")
            rounds = 0
            while time.monotonic() < self.deadline:
                call(conn, chance)
                rounds += 1
            return rounds

        return self.database.start(run)


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(("add", "add", "finish", "finish", "finish"), marks=pytest.mark.long),
        ("add", "add", "finish", "finish", "retry", "cancel"),
        ("add", "finish", "finish", "open", "open", "retry"),
        pytest.param(("add", "finish", "finish", "open", "cancel", "retry"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_single_calls_never_deadlock_and_counts_stay_exact(
    database: SharedDatabase, calls: tuple[str, ...]
) -> None:
    observer = database.session("observer")
    observer.execute("SELECT queue_set(p_max_attempts => 1)")
    batches = [opened(observer) for _ in range(3)]
    crowd = Crowd(database, 0.7, batches)
    running = [crowd.start(name, seed) for seed, name in enumerate(calls)]
    rounds = [future.result(timeout=20) for future in running]
    assert min(rounds) > 2, f"no crowd: {rounds}"
    invariants.check(observer)
    for batch_id in batches:
        close(observer, batch_id)
    created: Counter[tuple[bytes, int]] = Counter()

    def is_empty() -> bool:
        dispatch(observer)
        if deliveries := take(observer):
            created.update(
                (delivery.content, delivery.headers["batch"]["id"])
                for delivery in deliveries
                if delivery.channel == "callbacks" and delivery.headers is not None
            )
            complete(observer, *deliveries)
        return bool(value(observer, "SELECT COUNT(*) = 0 FROM message"))

    until(is_empty, "all messages to be finished")
    invariants.check(observer)
    finished = conn_ids(observer, "SELECT id FROM batch_list(p_limit => 10000) WHERE finished_at IS NOT NULL")
    assert len(finished) == value(observer, "SELECT COUNT(*) FROM batch")
    assert max(created.values()) == 1, created
    assert {batch_id for content, batch_id in created if content == b"complete"} == set(batches)
