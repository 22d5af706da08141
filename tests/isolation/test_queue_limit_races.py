"""A limit of the whole queue, with concurrent calls: never more leases than it allows, and not fewer for
long.
"""

import random
import threading
import time
from functools import partial

import psycopg
import pytest

from tests import invariants
from tests.isolation.pausing import paused
from tests.isolation.shared_database import (
    LEASED,
    SharedDatabase,
    dispatch,
    end,
    fail_on_lock_wait,
    leased_ids,
    take,
    unsettled,
    until,
    value,
    wait_until_expired,
)

LOAD, LOAD_S, TIMEOUT_S = 11, 1.5, 20
ENDINGS = pytest.mark.parametrize("ending", ["commit", "rollback"])
STOPS = pytest.mark.parametrize(
    "stop",
    [
        "dequeue has its entries",
        "dequeue has its messages",
        "before insert lease",
        "after insert notice",
    ],
)


def fill(conn: psycopg.Connection, count: int = 30) -> None:
    channels = [f"c{number % 6}" for number in range(count)]
    conn.execute("SELECT message_create_many(%s, %s)", (channels, [b"work"] * count))
    dispatch(conn)


def limit(conn: psycopg.Connection, max_concurrency: int) -> None:
    conn.execute("SELECT queue_set(p_max_concurrency => %s)", (max_concurrency,))


def leased(conn: psycopg.Connection) -> int:
    return len(leased_ids(conn))


def complete(conn: psycopg.Connection, deliveries: list[invariants.Delivery]) -> None:
    for delivery in deliveries:
        assert value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token) == "completed"


def complete_all(conn: psycopg.Connection) -> None:
    conn.execute(f"SELECT message_complete(id, token) FROM ({LEASED}) l")


def take_all(conn: psycopg.Connection, total: int) -> list[invariants.Delivery]:
    """Take messages until this many are leased, which may take a second; after that no more come."""
    deliveries: list[invariants.Delivery] = []

    def is_empty_handed() -> bool:
        dispatch(conn)
        more = take(conn)
        deliveries.extend(more)
        return not more and unsettled(conn) == 0 and leased(conn) >= total

    until(is_empty_handed, f"{total} to run at once")
    assert leased(conn) == total
    return deliveries


def check_limit(conn: psycopg.Connection, expected: int) -> None:
    """At rest: exactly this many messages can be leased at once, again and again."""
    fill(conn)
    complete_all(conn)
    for _ in range(2):
        assert len(take_all(conn, expected)) == expected
        complete_all(conn)
    invariants.check(conn)


# The last slots.


@ENDINGS
def test_two_dequeues_for_the_last_slots(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    limit(observer, 3)
    fill(observer)
    one.execute("BEGIN")
    assert len(take(one, 2)) == 2
    with fail_on_lock_wait(two):
        assert len(take(two)) == 1
        assert take(two) == []
    end(one, ending)
    assert len(take_all(observer, 3)) == (0 if ending == "commit" else 2)
    check_limit(observer, 3)


@STOPS
def test_a_dequeue_stopped_shares_no_slot(database: SharedDatabase, stop: str) -> None:
    observer, two = database.session("observer"), database.session("two")
    limit(observer, 3)
    fill(observer)
    with paused(database, stop, lambda one: take(one, 2)) as running, fail_on_lock_wait(two):
        met = take(two)
        assert len(met) <= 1
    assert len(running.result()) == 2
    take_all(observer, 3)
    check_limit(observer, 3)


@ENDINGS
def test_a_dequeue_left_open_holds_only_its_slots(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    limit(observer, 3)
    fill(observer, 60)
    one.execute("BEGIN")
    assert len(take(one, 1)) == 1
    with fail_on_lock_wait(two):
        for _ in range(10):
            dispatch(two)
            deliveries = take(two)
            assert len(deliveries) == 2
            complete(two, deliveries)
    end(one, ending)
    check_limit(observer, 3)


FREEING = {
    "complete": "SELECT message_complete(%(id)s, %(token)s)",
    "complete_many": "SELECT message_complete_many(ARRAY[%(id)s::BIGINT], ARRAY[%(token)s::UUID])",
    "retry": "SELECT message_retry(%(id)s, %(token)s, p_dequeue_at => clock_ms() + 3600000)",
    "retry, for the last time": "SELECT message_retry(%(id)s, %(token)s, p_error => 'bad')",
    "cancel, and complete": "SELECT message_cancel(%(id)s), message_complete(%(id)s, %(token)s)",
    "cancel, and retry": "SELECT message_cancel(%(id)s), message_retry(%(id)s, %(token)s)",
    "sweep": "SELECT dispatch()",
    "channel_delete": "SELECT channel_delete('c0', TRUE)",
}


@ENDINGS
@pytest.mark.parametrize("freeing", FREEING)
def test_a_slot_is_free_when_its_lease_ends_for_good(
    database: SharedDatabase, freeing: str, ending: str
) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    observer.execute("SELECT queue_set(p_max_attempts => 1)")
    limit(observer, 1)
    observer.execute("SELECT message_create('c0', 'work')")
    dispatch(observer)
    (delivery,) = take(observer, 1, lease_ms=1 if freeing == "sweep" else 3_600_000)
    observer.execute("SELECT message_create('d', 'next')")
    if freeing == "sweep":
        wait_until_expired(observer, [delivery])
    else:
        dispatch(observer)
    one.execute("BEGIN")
    one.execute(FREEING[freeing], {"id": delivery.id, "token": delivery.token})
    with fail_on_lock_wait(two):
        two.execute("SELECT dispatch()")
        assert take(two) == []
    end(one, ending)
    if freeing == "sweep":
        dispatch(observer)  # rolled back, the next dispatch sweeps
    assert len(take_all(observer, 1)) == (1 if ending == "commit" or freeing == "sweep" else 0)
    observer.execute("SELECT queue_set(p_max_attempts => 5)")
    check_limit(observer, 1)


def test_a_lease_marked_as_cancelled_keeps_its_slot(database: SharedDatabase) -> None:
    observer = database.session("observer")
    limit(observer, 1)
    fill(observer)
    (delivery,) = take(observer)
    assert value(observer, "SELECT message_cancel(%s)", delivery.id) == "marked"
    assert take_all(observer, 1) == []
    check_limit(observer, 1)


# A first limit.


@ENDINGS
def test_a_first_limit_counts_what_an_open_dequeue_holds(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    fill(observer)
    one.execute("BEGIN")
    assert len(take(one, 2)) == 2
    with fail_on_lock_wait(two):
        limit(two, 3)
        assert take(two) == [], "the limit holds from its commit on, and is not dispatched yet"
        dispatch(two)
        assert len(take(two)) == 1
    end(one, ending)
    take_all(observer, 3)
    check_limit(observer, 3)


@pytest.mark.parametrize("old", [0, 5], ids=["a first limit", "a changed limit"])
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_limit_set_under_an_old_snapshot_is_exact_or_refused(
    database: SharedDatabase, level: str, old: int
) -> None:
    """It cannot see what was leased, and which slots were removed, after its snapshot."""
    observer, one = database.session("observer"), database.session("one")
    fill(observer)
    if old:
        limit(observer, old)
        limit(observer, 2)
        dispatch(observer)
    one.execute(f"BEGIN ISOLATION LEVEL {level}")
    value(one, "SELECT COUNT(*) FROM message")
    assert len(take(observer, 1)) == 1
    refusal = None
    try:
        limit(one, 4)
    except psycopg.Error as error:
        refusal = error.sqlstate
    end(one, "rollback" if refusal else "commit")
    assert refusal in {None, "LM009", "40001"}
    if refusal:
        limit(one, 4)
    take_all(observer, 4)
    check_limit(observer, 4)


@ENDINGS
def test_a_first_limit_left_open_holds_for_nobody(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    fill(observer)
    one.execute("BEGIN")
    limit(one, 3)
    with fail_on_lock_wait(two):
        dispatch(two)
        assert len(take(two, 10)) == 10
    end(one, ending)
    assert len(take_all(observer, 10 if ending == "commit" else 30)) == (0 if ending == "commit" else 20)
    if ending == "commit":
        check_limit(observer, 3)


@STOPS
def test_a_first_limit_meets_a_dequeue_that_is_stopped(database: SharedDatabase, stop: str) -> None:
    observer, two = database.session("observer"), database.session("two")
    fill(observer)
    with paused(database, stop, lambda one: take(one, 5)) as running, fail_on_lock_wait(two):
        limit(two, 3)
        dispatch(two)
        assert take(two) == []
    assert len(running.result()) == 5, "it came before the limit"
    assert take_all(observer, 5) == []
    check_limit(observer, 3)


# A limit that changes.


@ENDINGS
def test_lowered_while_a_dequeue_is_open(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    limit(observer, 5)
    fill(observer)
    one.execute("BEGIN")
    running = take(one, 3)
    with fail_on_lock_wait(two):
        limit(two, 2)
        dispatch(two)
        assert take(two) == [], "what the open one may have counts"
    end(one, ending)
    if ending == "commit":
        for left in (0, 0, 1):
            assert len(take_all(observer, len(running) + left)) == left
            complete(observer, [running.pop()])
        assert leased(observer) == 1
    assert len(take_all(observer, 2)) == (1 if ending == "commit" else 2)
    check_limit(observer, 2)


@ENDINGS
@pytest.mark.parametrize("new", [3, 5, 8])
def test_raised_while_a_dequeue_drains(database: SharedDatabase, new: int, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    limit(observer, 5)
    fill(observer)
    limit(observer, 2)
    dispatch(observer)
    one.execute("BEGIN")
    assert len(take(one, 1)) == 1
    changing = database.start(lambda: limit(two, new))
    until(lambda: changing.done() or database.is_waiting(two, one), "the limit to be raised, or to wait")
    end(one, ending)
    changing.result(timeout=10)
    take_all(observer, new)
    check_limit(observer, new)


@ENDINGS
def test_raised_while_a_dequeue_is_open(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    limit(observer, 2)
    fill(observer)
    one.execute("BEGIN")
    assert len(take(one, 2)) == 2
    with fail_on_lock_wait(two):
        limit(two, 4)
        dispatch(two)
        assert len(take(two)) == 2
    end(one, ending)
    assert len(take_all(observer, 4)) == (0 if ending == "commit" else 2)
    check_limit(observer, 4)


@pytest.mark.parametrize("stop", ["dequeue has the tick", "before delete ready", "dequeue has its entries"])
def test_a_first_limit_meets_a_dequeue_of_one(database: SharedDatabase, stop: str) -> None:
    observer, two = database.session("observer"), database.session("two")
    fill(observer)
    with paused(database, stop, lambda one: take(one, 1)) as running, fail_on_lock_wait(two):
        limit(two, 1)
        dispatch(two)
    taken = len(running.result())
    assert len(take_all(observer, 1)) == 1 - taken
    check_limit(observer, 1)


@STOPS
@pytest.mark.parametrize("new", [1, 2, 6, 0])
def test_changed_while_a_dequeue_is_stopped(database: SharedDatabase, stop: str, new: int) -> None:
    """The dequeue takes what the old limit allowed; the new limit counts that."""
    observer, two = database.session("observer"), database.session("two")
    limit(observer, 4)
    fill(observer)
    with paused(database, stop, lambda one: take(one, 3)) as running, fail_on_lock_wait(two):
        limit(two, new)
        dispatch(two)
        assert len(take(two, 5)) == (min(5, max(0, new - 3)) if new else 5)
    assert len(running.result()) == 3
    if new > 0:
        take_all(observer, max(new, 3))
        check_limit(observer, new)


@STOPS
def test_lifted_and_set_again_while_a_dequeue_is_stopped(database: SharedDatabase, stop: str) -> None:
    """Whatever the dequeue has locked, the two do not deadlock."""
    observer, two = database.session("observer"), database.session("two")
    limit(observer, 4)
    fill(observer)
    one = database.session("one")

    def lift_and_set(conn: psycopg.Connection) -> None:
        limit(conn, 0)
        limit(conn, 4)

    with paused(database, stop, lambda one: take(one, 3)) as running:
        changing = database.start(lambda: lift_and_set(two))
        until(lambda: changing.done() or database.is_waiting(two, one), "the limit to change, or to wait")
    changing.result(timeout=10)
    running.result()
    take_all(observer, 4)
    check_limit(observer, 4)


# All at once.


@pytest.mark.parametrize("moves", [False, True], ids=["a fixed limit", "a limit that moves"])
def test_the_limit_holds_under_load(database: SharedDatabase, moves: bool) -> None:
    """Leases end in every way; a watcher counts them all the time, each time in one snapshot."""
    observer, watcher, mover = (
        database.session("observer"),
        database.session("watcher"),
        database.session("mover"),
    )
    highest, chance = 4, random.Random(1)
    limit(observer, highest)
    fill(observer, 600)
    taken: list[int] = []
    is_over = threading.Event()
    sessions = [database.session(f"load {seed}") for seed in range(5)]
    running = [
        database.start(partial(consume, conn, seed, taken, is_over)) for seed, conn in enumerate(sessions)
    ]
    begin = time.monotonic()
    while time.monotonic() < begin + LOAD_S or (len(taken) < LOAD and time.monotonic() < begin + TIMEOUT_S):
        assert leased(watcher) <= highest
        if moves and chance.random() < 0.2:
            limit(mover, chance.randint(1, highest))
        time.sleep(0.002)
    is_over.set()
    for future in running:
        future.result(timeout=TIMEOUT_S)
    assert len(taken) >= LOAD
    complete_all(observer)
    limit(observer, 3)
    take_all(observer, 3)
    check_limit(observer, 3)


def consume(conn: psycopg.Connection, seed: int, taken: list[int], is_over: threading.Event) -> None:
    """Add the ids of the messages that it leased to `taken`."""
    chance = random.Random(seed)
    while not is_over.is_set():
        conn.execute("SELECT dispatch()")
        conn.execute("BEGIN")
        deliveries = take(conn, chance.randint(1, 3), lease_ms=chance.choice([1, 60_000]))
        end(conn, chance.choice(["commit", "commit", "rollback"]))
        taken += [delivery.id for delivery in deliveries]
        for delivery in deliveries:
            call = chance.choice(["message_complete(%s, %s)", "message_retry(%s, %s)"])
            conn.execute(f"SELECT {call}", (delivery.id, delivery.token))
