"""Concurrent calls on a channel with a max_size: exactly that many messages fit; the size never drifts."""

import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

from tests import invariants
from tests.isolation.pausing import paused
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

LEVELS = pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
ENDINGS = pytest.mark.parametrize("ending", ["commit", "rollback"])
RETRY = psycopg.errors.SerializationFailure


def create(conn: psycopg.Connection, count: int = 1, channel: str = "a") -> list[str]:
    rows = conn.execute(
        "SELECT result FROM message_create_many(%s, %s)", ([channel] * count, [b"work"] * count)
    ).fetchall()
    return [result for (result,) in rows]


def create_one(conn: psycopg.Connection) -> str:
    try:
        return str(value(conn, "SELECT result FROM message_create('a', 'work')"))
    except RETRY:
        return "retry"


def limit(conn: psycopg.Connection, max_size: int) -> None:
    conn.execute("SELECT channel_set('a', p_max_size => %s)", (max_size,))


def size(conn: psycopg.Connection) -> int:
    return int(value(conn, "SELECT COUNT(*) FROM message WHERE channel = 'a'"))


def check_sizes(conn: psycopg.Connection) -> None:
    """The size, less the departures, is the number of counted messages."""
    drifted = conn.execute(
        """
        SELECT c.*, d.n, m.n FROM capacity c
        CROSS JOIN LATERAL (SELECT COALESCE(SUM(d.n), 0) AS n FROM departure d WHERE d.channel = c.channel) d
        CROSS JOIN LATERAL (
            SELECT COUNT(*) AS n FROM message m WHERE m.channel = c.channel AND m.is_counted) m
        WHERE c.size - d.n <> m.n"""
    ).fetchall()
    assert not drifted, f"sizes drifted: {drifted}"
    twice = conn.execute("SELECT channel FROM capacity GROUP BY channel HAVING COUNT(*) > 1").fetchall()
    assert not twice, f"more than one live size: {twice}"
    invariants.check(conn)


def check_exact(conn: psycopg.Connection, max_size: int) -> None:
    """The channel can be filled up to its max_size; when one message leaves, one more fits."""
    check_sizes(conn)
    while create_one(conn) == "created":
        assert size(conn) <= max_size
    assert size(conn) == max_size
    dispatch(conn)
    (delivery,) = take(conn, 1)
    assert value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token) == "completed"
    assert [create_one(conn), create_one(conn)] == ["created", "full"]
    check_sizes(conn)


def begin(conn: psycopg.Connection, level: str = "READ COMMITTED") -> None:
    conn.execute(f"BEGIN ISOLATION LEVEL {level}")


def start_waiting(
    database: SharedDatabase, waiter: str, holder: str, call: Callable[..., Any]
) -> "Future[Any]":
    conn, other = database.session(waiter), database.session(holder)
    running = database.start(lambda: call(conn))
    until(lambda: running.done() or database.is_waiting(conn, other), f"{waiter} to wait for {holder}")
    assert not running.done(), f"did not wait: {running.result()}"
    return running


# The last place.


@LEVELS
@pytest.mark.parametrize(
    "first_ends", ["commit", "rollback", "rollback to savepoint", "release, commit", "release, rollback"]
)
def test_two_producers_for_the_last_place(database: SharedDatabase, first_ends: str, level: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    limit(observer, 3)
    create(observer, 2)
    begin(one, level)
    one.execute("SAVEPOINT s")
    assert create_one(one) == "created"
    if first_ends.startswith("release"):
        one.execute("RELEASE s")
    begin(two, level)
    second = start_waiting(database, "two", "one", create_one)
    if first_ends.endswith("savepoint"):
        one.execute("ROLLBACK TO s")
    else:
        end(one, first_ends.removeprefix("release, "))
    met = second.result(timeout=10)
    if first_ends.endswith("commit"):
        assert met == ("full" if level == "READ COMMITTED" else "retry")
    else:
        assert met == "created"
    end(two, "rollback" if met == "retry" else "commit")
    if first_ends.endswith("savepoint"):
        end(one, "rollback" if level == "SERIALIZABLE" else "commit")  # it has read what the other wrote
    assert size(observer) == 3
    check_exact(observer, 3)


@ENDINGS
def test_a_retry_and_a_create_for_the_last_place(database: SharedDatabase, ending: str) -> None:
    observer, one = database.session("observer"), database.session("one")
    limit(observer, 1)
    observer.execute("SELECT queue_set(p_max_attempts => 1)")
    create(observer)
    dispatch(observer)
    (delivery,) = take(observer, 1)
    assert (
        value(observer, "SELECT message_retry(%s, %s, p_error => 'x')", delivery.id, delivery.token) == "dead"
    )
    begin(one)
    assert create_one(one) == "created"
    retrying = start_waiting(
        database, "two", "one", lambda two: value(two, "SELECT result FROM dead_retry(%s)", [delivery.id])
    )
    end(one, ending)
    assert retrying.result(timeout=10) == ("full" if ending == "commit" else "retried")
    assert size(observer) == 1
    check_sizes(observer)


# Finishers and producers do not wait for each other.

FINISHERS = {
    "complete": "SELECT message_complete(%(id)s, %(token)s)",
    "complete_many": "SELECT message_complete_many(ARRAY[%(id)s::BIGINT], ARRAY[%(token)s::UUID])",
    "retry, for the last time": "SELECT message_retry(%(id)s, %(token)s, p_error => 'bad')",
    "cancel, and complete": "SELECT message_cancel(%(id)s), message_complete(%(id)s, %(token)s)",
    "cancel what waits": "SELECT message_cancel(id) FROM message_list() LIMIT 1",
    "sweep": "SELECT dispatch()",
}


def full_channel(database: SharedDatabase, finisher: str) -> dict[str, Any]:
    """A channel with room for three: one message is leased and two wait."""
    observer = database.session("observer")
    limit(observer, 3)
    observer.execute("SELECT queue_set(p_max_attempts => 1)")
    create(observer, 3)
    dispatch(observer)
    (delivery,) = take(observer, 1, lease_ms=1 if finisher == "sweep" else 3_600_000)
    if finisher == "sweep":
        wait_until_expired(observer, [delivery])
    return {"id": delivery.id, "token": delivery.token}


@ENDINGS
@pytest.mark.parametrize("finisher", FINISHERS)
def test_finishers_do_not_wait_for_open_producers(
    database: SharedDatabase, finisher: str, ending: str
) -> None:
    lease = full_channel(database, finisher)
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    begin(one)
    assert create_one(one) == "full"
    limit_of_another = "SELECT channel_set('b', p_max_size => 3)"
    with fail_on_lock_wait(two):
        two.execute(FINISHERS[finisher], lease)
        two.execute(limit_of_another)
    assert create_one(one) == "created", "the place came free under its eyes"
    end(one, ending)
    observer.execute("SELECT queue_set(p_max_attempts => 5)")
    assert size(observer) == (3 if ending == "commit" else 2)
    check_exact(observer, 3)


@ENDINGS
@pytest.mark.parametrize("finisher", FINISHERS)
def test_producers_do_not_wait_for_open_finishers(
    database: SharedDatabase, finisher: str, ending: str
) -> None:
    """The place is free once the finisher has committed, and not before."""
    lease = full_channel(database, finisher)
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    begin(one)
    one.execute(FINISHERS[finisher], lease)
    with fail_on_lock_wait(two):
        assert create_one(two) == "full"
    end(one, ending)
    with fail_on_lock_wait(two):
        assert create_one(two) == ("created" if ending == "commit" else "full")
    observer.execute("SELECT queue_set(p_max_attempts => 5)")
    assert size(observer) == 3
    check_exact(observer, 3)


@pytest.mark.parametrize("finisher", FINISHERS)
@pytest.mark.parametrize("stop", ["before update capacity", "after update capacity", "before insert message"])
def test_a_place_comes_free_while_a_producer_is_stopped(
    database: SharedDatabase, stop: str, finisher: str
) -> None:
    lease = full_channel(database, finisher)
    observer, two = database.session("observer"), database.session("two")
    limit(observer, 4)
    with paused(database, stop, create_one) as running, fail_on_lock_wait(two):
        two.execute(FINISHERS[finisher], lease)
    assert running.result() == "created"
    observer.execute("SELECT queue_set(p_max_attempts => 5)")
    assert size(observer) == 3
    check_exact(observer, 4)


# The limit is set, changed and lifted.


@ENDINGS
@pytest.mark.parametrize("new", [1, 10])
def test_a_limit_changes_while_a_producer_is_open(database: SharedDatabase, new: int, ending: str) -> None:
    observer, one = database.session("observer"), database.session("one")
    limit(observer, 3)
    create(observer, 2)
    begin(one)
    assert create_one(one) == "created"
    setting = start_waiting(database, "two", "one", lambda two: limit(two, new))
    end(one, ending)
    setting.result(timeout=10)
    assert create_one(observer) == ("created" if new == 10 else "full")
    check_sizes(observer)


@pytest.mark.parametrize("new", [1, 10])
def test_a_producer_that_waited_for_the_limit_obeys_it(database: SharedDatabase, new: int) -> None:
    observer, one = database.session("observer"), database.session("one")
    limit(observer, 3)
    create(observer, 2 if new == 1 else 3)
    begin(one)
    limit(one, new)
    waiting = start_waiting(database, "two", "one", create_one)
    end(one, "commit")
    assert waiting.result(timeout=10) == ("full" if new == 1 else "created")
    check_sizes(observer)


@ENDINGS
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_first_limit_is_set_while_a_producer_is_open(
    database: SharedDatabase, count: int, ending: str
) -> None:
    """Its messages count once they are committed, like those from before the limit."""
    observer, one = database.session("observer"), database.session("one")
    begin(one)
    create(one, count)
    setting = database.start(lambda: limit(observer, 2))
    until(
        lambda: setting.done() or blocks(database, "watcher", observer, one),
        "the limit to be set, or to wait",
    )
    if not setting.done():
        end(one, ending)
        setting.result(timeout=10)
    else:
        end(one, ending)
    there = count if ending == "commit" else 0
    results = [create_one(observer) for _ in range(3)]
    fitting = max(0, 2 - there)
    assert results == ["created"] * fitting + ["full"] * (3 - fitting)
    check_sizes(observer)


def blocks(
    database: SharedDatabase, watcher: str, waiter: psycopg.Connection, holder: psycopg.Connection
) -> bool:
    blocking: list[int] = value(
        database.session(watcher), "SELECT pg_blocking_pids(%s)", waiter.info.backend_pid
    )
    return holder.info.backend_pid in blocking


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("was", ["none anywhere", "one elsewhere", "lifted here"])
def test_a_snapshot_from_before_the_limit(database: SharedDatabase, was: str, level: str) -> None:
    """It cannot see the limit. The create is refused, fails with a retryable error, or is counted;
    afterwards the limit holds.
    """
    observer, one = database.session("observer"), database.session("one")
    if was == "one elsewhere":
        observer.execute("SELECT channel_set('b', p_max_size => 1)")
    elif was == "lifted here":
        limit(observer, 1)
        limit(observer, 0)
    begin(one, level)
    value(one, "SELECT COUNT(*) FROM message")
    limit(observer, 1)
    made = create_one(one)
    end(one, "rollback" if made == "retry" else "commit")
    while create_one(observer) == "created":
        pass
    assert size(observer) == 1
    check_sizes(observer)


@pytest.mark.parametrize("stop", ["create begins", "before insert message", "after insert message"])
def test_a_create_on_its_way_is_counted_by_a_limit_in_use(database: SharedDatabase, stop: str) -> None:
    observer = database.session("observer")
    with paused(database, stop, create_one) as running:
        limit(observer, 2)
        assert create_one(observer) == "created"
    assert running.result() == "created"
    assert create_one(observer) == "full"
    assert size(observer) == 2
    check_sizes(observer)


@ENDINGS
def test_a_batch_that_waits_elsewhere_is_counted_by_a_limit_in_use(
    database: SharedDatabase, ending: str
) -> None:
    """It has read that the second channel has no limit, and waits for the size of the first one."""
    observer, gate = database.session("observer"), database.session("gate")
    observer.execute("SELECT channel_set('0', p_max_size => 9)")
    gate.execute("BEGIN")
    assert create(gate, channel="0") == ["created"]
    waiting = start_waiting(
        database, "two", "gate", lambda two: two.execute("SELECT message_create_many('{0,a}', '{x,y}')")
    )
    limit(observer, 1)
    assert create_one(observer) == "created"
    end(gate, ending)
    waiting.result(timeout=10)
    assert size(observer) == 1
    assert create_one(observer) == "full"
    check_sizes(observer)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_snapshot_from_before_a_limit_in_use(database: SharedDatabase, level: str) -> None:
    """It does not see the limit, so its messages exceed it; once they have left, the size is exact."""
    observer, one = database.session("observer"), database.session("one")
    begin(one, level)
    value(one, "SELECT COUNT(*) FROM message")
    limit(observer, 2)
    assert create_one(observer) == "created"
    made = create_one(one)
    end(one, "rollback" if made == "retry" else "commit")
    while create_one(observer) == "created":
        assert size(observer) <= 3
    dispatch(observer)
    for delivery in take(observer):
        observer.execute("SELECT message_complete(%s, %s)", (delivery.id, delivery.token))
    observer.execute("UPDATE capacity SET recounted_at = 0")  # a second has passed
    check_exact(observer, 2)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("call", ["message_create('a', '')", "channel_set('a', p_max_size => 3)"])
def test_a_channel_that_was_deleted_after_the_snapshot(
    database: SharedDatabase, call: str, level: str
) -> None:
    """Else the transaction would see the old policy and its own."""
    observer, one = database.session("observer"), database.session("one")
    observer.execute("SELECT channel_set('a', p_weight => 2), queue_set(p_channel_max_size => 3)")
    begin(one, level)
    value(one, "SELECT COUNT(*) FROM message")
    value(observer, "SELECT result FROM channel_delete('a')")
    with pytest.raises(psycopg.errors.SerializationFailure):
        one.execute(f"SELECT {call}")
    end(one, "rollback")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("was", ["none", "lifted"])
def test_a_limit_set_under_an_old_snapshot_counts_what_is_there(
    database: SharedDatabase, was: str, level: str
) -> None:
    observer, one = database.session("observer"), database.session("one")
    if was == "lifted":
        limit(observer, 1)
        limit(observer, 0)
    begin(one, level)
    value(one, "SELECT COUNT(*) FROM message")
    create(observer, 2)
    limit(one, 3)
    end(one, "commit")
    assert create(observer, 3) == ["created", "full", "full"]
    check_sizes(observer)


@ENDINGS
def test_a_limit_is_set_while_a_finisher_is_open(database: SharedDatabase, ending: str) -> None:
    """The messages that it finishes are from before the limit and write no departure; the next recount
    notices.
    """
    observer, one = database.session("observer"), database.session("one")
    create(observer, 2)
    dispatch(observer)
    (delivery, _other) = take(observer, 2)
    begin(one)
    one.execute("SELECT message_complete(%s, %s)", (delivery.id, delivery.token))
    with fail_on_lock_wait(observer):
        limit(observer, 2)
        assert create_one(observer) == "full"
    end(one, ending)
    if ending == "commit":
        until(lambda: create_one(observer) == "created", "the place to be found")
    assert create_one(observer) == "full"
    assert size(observer) == 2
    check_sizes(observer)


@ENDINGS
def test_lifted_and_set_again_around_an_open_producer(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    limit(observer, 2)
    begin(one)
    assert create_one(one) == "created"
    with fail_on_lock_wait(two):
        limit(two, 0)
        assert create(two, 2) == ["created", "created"]
    setting = start_waiting(database, "two", "one", lambda two: limit(two, 4))
    end(one, ending)
    setting.result(timeout=10)
    there = 3 if ending == "commit" else 2
    assert size(observer) == there
    assert create(observer, 3) == ["created"] * (4 - there) + ["full"] * (there - 1)
    check_sizes(observer)


@ENDINGS
def test_lifted_while_counted_messages_leave(database: SharedDatabase, ending: str) -> None:
    observer, one = database.session("observer"), database.session("one")
    limit(observer, 3)
    create(observer, 3)
    dispatch(observer)
    first, second, _third = take(observer, 3)
    begin(one)
    one.execute("SELECT message_complete(%s, %s)", (first.id, first.token))
    limit(observer, 0)
    assert value(observer, "SELECT message_complete(%s, %s)", second.id, second.token) == "completed"
    limit(observer, 3)
    end(one, ending)
    left = 1 if ending == "commit" else 2
    assert create(observer, 3) == ["created"] * (3 - left) + ["full"] * left
    check_exact(observer, 3)


@LEVELS
def test_a_producer_that_frees_its_own_place(database: SharedDatabase, level: str) -> None:
    """The departures that it has read do not hide its own, however many newer transactions there are."""
    observer, one = database.session("observer"), database.session("one")
    limit(observer, 2)
    create(observer, 2)
    begin(one, level)
    for _ in range(3):
        assert create_one(one) == "full"
        value(observer, "SELECT pg_current_xact_id()")
        if level == "READ COMMITTED":
            one.execute("SELECT message_cancel(MIN(id)) FROM message WHERE channel = 'a'")
        else:  # as a finisher does
            one.execute(
                "WITH gone AS (DELETE FROM message WHERE id ="
                " (SELECT MIN(id) FROM message WHERE channel = 'a') RETURNING 1)"
                " INSERT INTO departure (channel, n) SELECT 'a', 1 FROM gone"
            )
        assert create_one(one) == "created"
    end(one, "rollback" if level != "READ COMMITTED" else "commit")
    check_exact(observer, 2)


# The channel is deleted.


@ENDINGS
@pytest.mark.parametrize("with_messages", [False, True])
def test_channel_delete_waits_for_an_open_producer(
    database: SharedDatabase, with_messages: bool, ending: str
) -> None:
    observer, one = database.session("observer"), database.session("one")
    limit(observer, 2)
    begin(one)
    assert create_one(one) == "created"
    deleting = start_waiting(
        database,
        "two",
        "one",
        lambda two: value(two, "SELECT result FROM channel_delete('a', %s)", with_messages),
    )
    end(one, ending)
    is_left = ending == "commit" and not with_messages
    assert deleting.result(timeout=10) == ("not_empty" if is_left else "deleted")
    assert size(observer) == (1 if is_left else 0)
    limit(observer, 2)
    check_exact(observer, 2)


@ENDINGS
def test_a_producer_waits_for_channel_delete(database: SharedDatabase, ending: str) -> None:
    observer, one = database.session("observer"), database.session("one")
    limit(observer, 1)
    create(observer)
    begin(one)
    assert value(one, "SELECT result FROM channel_delete('a', TRUE)") == "deleted"
    waiting = start_waiting(database, "two", "one", create_one)
    end(one, ending)
    assert waiting.result(timeout=10) == ("created" if ending == "commit" else "full")
    limit(observer, 1)
    assert create_one(observer) == "full"
    assert size(observer) == 1
    check_sizes(observer)


def test_deleted_and_limited_anew_under_a_waiting_producer(database: SharedDatabase) -> None:
    """The producer's messages did not exist when the new limit counted; the new limit holds nevertheless."""
    observer, one = database.session("observer"), database.session("one")
    limit(observer, 1)
    create(observer)
    begin(one)
    assert value(one, "SELECT result FROM channel_delete('a', TRUE)") == "deleted"
    limit(one, 1)
    waiting = start_waiting(database, "two", "one", create_one)
    end(one, "commit")
    assert waiting.result(timeout=10) == "created"
    assert create_one(observer) == "full"
    check_sizes(observer)


DELETE_STOPS = (
    "delete found no messages",
    "before delete channel",
    "after delete channel",
    "after delete capacity",
)


@pytest.mark.parametrize("stop", DELETE_STOPS)
@pytest.mark.parametrize("done", ["limited", "produced", "finished"])
def test_limited_for_the_first_time_while_it_is_deleted(
    database: SharedDatabase, stop: str, done: str
) -> None:
    """The new policy comes after the deletion and stays, with its size and its counted messages."""
    observer, two = database.session("observer"), database.session("two")
    create(observer)
    invariants.drain(observer)
    delete = "SELECT result FROM channel_delete('a')"
    with paused(database, stop, lambda one: value(one, delete)) as running, fail_on_lock_wait(two):
        limit(two, 2)
        if done != "limited":
            assert create_one(two) == "created"
        if done == "finished":
            invariants.drain(two)
    assert running.result() == "deleted"
    observer.execute("SET statement_timeout = '10s'")
    assert value(observer, "SELECT max_size FROM channel_get('a')") == 2
    there = 1 if done == "produced" else 0
    assert create(observer, 3) == ["created"] * (2 - there) + ["full"] * (1 + there)
    check_exact(observer, 2)


@LEVELS
@pytest.mark.parametrize("first_ends", ["commit", "rollback"])
def test_two_producers_find_no_size(database: SharedDatabase, first_ends: str, level: str) -> None:
    """However the size got lost, it is created again, once: the second producer waits for the first."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    for conn in (observer, one, two):
        conn.execute("SET statement_timeout = '10s'")
    limit(observer, 1)
    observer.execute("DELETE FROM capacity")
    begin(one, level)
    begin(two, level)
    assert value(two, "SELECT COUNT(*) FROM message") == 0, "its snapshot is taken"
    assert create_one(one) == "created"
    second = start_waiting(database, "two", "one", create_one)
    end(one, first_ends)
    met = second.result(timeout=10)
    if first_ends == "rollback":
        assert met == "created"
    else:
        assert met == ("full" if level == "READ COMMITTED" else "retry")
    end(two, "rollback" if met == "retry" else "commit")
    assert create_one(observer) == "full"
    assert size(observer) == 1
    check_exact(observer, 1)


# All at once.


class Load:
    """What producers, finishers and the session that changes the limit do until the time is up."""

    def __init__(self, database: SharedDatabase, highest: int, seconds: float) -> None:
        self.database = database
        self.highest = highest
        self.deadline = time.monotonic() + seconds

    def is_on(self) -> bool:
        return time.monotonic() < self.deadline

    def produce(self, conn: psycopg.Connection, chance: random.Random) -> None:
        conn.execute("BEGIN")
        create(conn, chance.randint(1, 4))
        end(conn, chance.choice(["commit", "commit", "rollback"]))

    def consume(self, conn: psycopg.Connection, chance: random.Random) -> None:
        conn.execute("SELECT dispatch()")
        for delivery in take(conn, 3):
            conn.execute("BEGIN")
            finisher = chance.choice(["message_complete(%s, %s)", "message_retry(%s, %s)"])
            conn.execute(f"SELECT {finisher}", (delivery.id, delivery.token))
            end(conn, chance.choice(["commit", "commit", "rollback"]))

    def change(self, conn: psycopg.Connection, chance: random.Random) -> None:
        limit(conn, chance.randint(self.highest // 2, self.highest))
        time.sleep(0.01)

    def start(self, work: Callable[[psycopg.Connection, random.Random], None], seed: int) -> "Future[None]":
        conn, chance = self.database.session(f"load {seed}"), random.Random(seed)

        def run() -> None:
            while self.is_on():
                work(conn, chance)

        return self.database.start(run)


def test_nothing_drifts_under_load(database: SharedDatabase) -> None:
    """A watcher counts all the time, each time in one snapshot."""
    observer, watcher = database.session("observer"), database.session("watcher")
    load = Load(database, highest=8, seconds=1.5)
    limit(observer, load.highest)
    works = [load.produce, load.produce, load.produce, load.consume, load.consume, load.change]
    running = [load.start(work, seed) for seed, work in enumerate(works)]
    while load.is_on():
        assert size(watcher) <= load.highest
        time.sleep(0.002)
    for future in running:
        future.result(timeout=20)
    limit(observer, load.highest)
    check_sizes(observer)
    while create_one(observer) == "created":
        pass
    assert size(observer) == load.highest
    check_sizes(observer)
