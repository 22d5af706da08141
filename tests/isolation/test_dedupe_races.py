"""Concurrent transactions on one dedupe key: never two messages, and never none if a creator committed.

The messages hold their keys until they are finished; test_waiting_keys.py has those that hold them only while
they wait.
"""

import itertools
from concurrent.futures import Future
from typing import Any
from uuid import uuid4

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

Made = tuple[int | None, str]


def create(conn: psycopg.Connection, keep_ms: int = 0) -> Made:
    row = conn.execute(
        "SELECT id, result FROM message_create('a', 'work', p_dedupe_key => 'k', p_unique_for_ms => %s)",
        (keep_ms,),
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def create_or_retry(conn: psycopg.Connection) -> Made:
    try:
        return create(conn)
    except RETRY:
        return None, "retry"


def begin(conn: psycopg.Connection, level: str = "READ COMMITTED") -> None:
    conn.execute(f"BEGIN ISOLATION LEVEL {level}")


def start_waiting(database: SharedDatabase, waiter: str, holder: str, call: Any) -> "Future[Any]":
    conn, other = database.session(waiter), database.session(holder)
    running = database.start(lambda: call(conn))
    until(lambda: running.done() or database.is_waiting(conn, other), f"{waiter} to wait for {holder}")
    assert not running.done(), f"did not wait: {running.result()}"
    return running


def lease(conn: psycopg.Connection) -> invariants.Delivery:
    dispatch(conn)
    (delivery,) = take(conn, 1)
    return delivery


def check_one_key(conn: psycopg.Connection, expected: int) -> None:
    """This many messages exist, each has its key, and no two share one."""
    assert value(conn, "SELECT COUNT(*) FROM message") == expected
    loose = conn.execute(
        "SELECT m.id, m.dedupe_key, d.message_id, d.until_at FROM message m "
        "LEFT JOIN dedupe d ON d.channel = m.channel AND d.key = m.dedupe_key AND d.message_id IS NOT NULL "
        "WHERE m.dedupe_key IS NOT NULL AND (d.message_id, d.until_at IS NULL) IS DISTINCT FROM (m.id, TRUE)"
    ).fetchall()
    assert not loose, f"live without holding their key: {loose}"
    orphans = conn.execute(
        "SELECT * FROM dedupe d WHERE until_at IS NULL AND message_id IS NOT NULL AND NOT EXISTS "
        "(SELECT FROM message m WHERE m.id = d.message_id)"
    ).fetchall()
    assert not orphans, f"held by nobody, for ever: {orphans}"
    invariants.check(conn)


IS_FREE = "SELECT until_at < clock_ms() FROM dedupe ORDER BY turn DESC LIMIT 1"


def free_key(database: SharedDatabase, lives: int = 1) -> int:
    """A key whose message has finished and that is free again; its row still exists."""
    conn = database.session("observer")
    old: int | None = None
    for _ in range(lives):
        old, result = create(conn)
        assert result == "created"
        delivery = lease(conn)
        assert value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token) == "completed"
        until(lambda: value(conn, IS_FREE) is True, "the key to be free")
    return old or 0


# How many messages had the key before. When a key is taken over, it gets a second row.
LIVES = {"new": 0, "free again": 1, "free for the second time": 2, "free for the third time": 3}
KEYS = pytest.mark.parametrize("key", LIVES)
TAKEN = pytest.mark.parametrize("lives", [1, 2, 3])


# Two and three at once.


@pytest.mark.cases(12)
@LEVELS
@KEYS
@pytest.mark.parametrize(
    "first_ends", ["commit", "rollback", "rollback to savepoint", "release, commit", "release, rollback"]
)
def test_two_transactions_on_one_key(database: SharedDatabase, first_ends: str, key: str, level: str) -> None:
    free_key(database, LIVES[key])
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    begin(one, level)
    one.execute("SAVEPOINT s")
    made = create(one)
    assert made[1] == "created"
    if first_ends.startswith("release"):
        one.execute("RELEASE s")
    begin(two, level)
    second = start_waiting(database, "two", "one", create_or_retry)
    if first_ends.endswith("savepoint"):
        one.execute("ROLLBACK TO s")
    else:
        end(one, first_ends.removeprefix("release, "))
    met = second.result(timeout=10)
    if first_ends.endswith("commit"):
        assert met == ((made[0], "duplicate") if level == "READ COMMITTED" else (None, "retry"))
        end(two, "rollback")
        assert create(two) == (made[0], "duplicate")
    else:
        assert met[1] == "created"
        end(two, "commit")
        if first_ends.endswith("savepoint"):
            end(one, "rollback" if level == "SERIALIZABLE" else "commit")  # it has read what the other wrote
    check_one_key(observer, 1)


@pytest.mark.parametrize("endings", [*itertools.product(["commit", "rollback"], repeat=3)], ids=" ".join)
@KEYS
def test_three_transactions_on_one_key(database: SharedDatabase, key: str, endings: tuple[str, ...]) -> None:
    free_key(database, LIVES[key])
    observer = database.session("observer")
    ends = dict(zip(("one", "two", "three"), endings, strict=True))
    for name in ends:
        begin(database.session(name))
    results = {"one": create(database.session("one"))}
    waiting = {name: start_waiting(database, name, "one", create) for name in ("two", "three")}
    end(database.session("one"), ends["one"])
    standing = results["one"][0] if ends["one"] == "commit" else None
    while waiting:
        until(lambda: any(future.done() for future in waiting.values()), "one of them to go on")
        name = next(name for name, future in waiting.items() if future.done())
        made = waiting.pop(name).result()
        assert made == (standing, "duplicate") if standing is not None else made[1] == "created"
        end(database.session(name), ends[name])
        if made[1] == "created" and ends[name] == "commit":
            standing = made[0]
    check_one_key(observer, 1 if standing is not None else 0)
    assert create(observer)[1] == ("created" if standing is None else "duplicate")
    check_one_key(observer, 1)


@LEVELS
def test_a_snapshot_from_before_the_key_was_taken(database: SharedDatabase, level: str) -> None:
    observer, one = database.session("observer"), database.session("one")
    begin(one, level)
    value(one, "SELECT COUNT(*) FROM dedupe")
    made = create(observer)
    met = create_or_retry(one)
    assert met == ((made[0], "duplicate") if level == "READ COMMITTED" else (None, "retry"))
    end(one, "rollback")
    check_one_key(observer, 1)


@LEVELS
@TAKEN
def test_a_snapshot_from_before_the_key_was_taken_over(
    database: SharedDatabase, lives: int, level: str
) -> None:
    free_key(database, lives)
    observer, one = database.session("observer"), database.session("one")
    begin(one, level)
    value(one, "SELECT COUNT(*) FROM dedupe")
    made = create(observer)
    met = create_or_retry(one)
    assert met == ((made[0], "duplicate") if level == "READ COMMITTED" else (None, "retry"))
    end(one, "rollback")
    check_one_key(observer, 1)


# Against calls that end the message with the key.

FINISHERS = {
    "complete": "SELECT message_complete(%(id)s, %(token)s)",
    "complete_many": "SELECT message_complete_many(ARRAY[%(id)s::BIGINT], ARRAY[%(token)s::UUID])",
    "retry, for the last time": "SELECT message_retry(%(id)s, %(token)s, p_error => 'bad')",
    "cancel, and complete": "SELECT message_cancel(%(id)s), message_complete(%(id)s, %(token)s)",
    "sweep": "SELECT dispatch()",
    "channel_delete": "SELECT channel_delete('a', TRUE)",
}


@pytest.mark.cases(12)
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@ENDINGS
@pytest.mark.parametrize("keep_ms", [0, 600_000])
@pytest.mark.parametrize("finisher", FINISHERS)
@pytest.mark.parametrize("lives", [0, 2])
def test_against_the_holders_end(
    database: SharedDatabase, lives: int, finisher: str, keep_ms: int, ending: str, level: str
) -> None:
    """An open end is waited for; once committed, the key is free or kept; rolled back, it is still taken."""
    free_key(database, lives)
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    observer.execute("SELECT queue_set(p_max_attempts => 1)")
    holder, _ = create(observer, keep_ms)
    dispatch(observer)
    (delivery,) = take(observer, 1, lease_ms=1 if finisher == "sweep" else 3_600_000)
    if finisher == "sweep":
        wait_until_expired(observer, [delivery])
    begin(one)
    one.execute(FINISHERS[finisher], {"id": delivery.id, "token": delivery.token})
    begin(two, level)
    second = start_waiting(database, "two", "one", create_or_retry)
    end(one, ending)
    met = second.result(timeout=10)
    end(two, "commit" if met[1] != "retry" else "rollback")
    if ending == "rollback":
        assert met == (holder, "duplicate")
    elif level == "REPEATABLE READ" and finisher != "channel_delete":
        assert met == (None, "retry")
    elif keep_ms == 0 or finisher == "channel_delete":
        assert met[1] == "created"
    else:
        assert met == (holder, "duplicate")
    check_one_key(observer, 1 if ending == "rollback" or met[1] == "created" else 0)


@ENDINGS
def test_a_duplicate_delays_nobody(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    holder, _ = create(observer)
    delivery = lease(observer)
    begin(one)
    assert create(one) == (holder, "duplicate")
    with fail_on_lock_wait(two):
        assert create(two) == (holder, "duplicate")
        assert value(two, "SELECT message_complete(%s, %s)", delivery.id, delivery.token) == "completed"
        assert create(two)[1] == "created"
        assert value(two, "SELECT result FROM channel_delete('a', TRUE)") == "deleted"
        assert create(two)[1] == "created"
    end(one, ending)
    check_one_key(observer, 1)


# Against other calls on an expired key, with the creator stopped before it takes the key over.


def taken_over(conn: psycopg.Connection) -> int:
    assert create(conn)[1] == "created"
    return 1


def taken_over_and_cancelled(conn: psycopg.Connection) -> int:
    made, _ = create(conn)
    assert value(conn, "SELECT message_cancel(%s)", made) == "cancelled"
    return 0


def maintained(conn: psycopg.Connection) -> int:
    conn.execute("UPDATE maintenance SET dedupe_from = 0, dedupe_day = 0")
    conn.execute("SELECT maintain()")
    assert value(conn, "SELECT COUNT(*) FROM dedupe") == 0
    return 0


def maintained_and_taken(conn: psycopg.Connection) -> int:
    return maintained(conn) + taken_over(conn)


def deleted(conn: psycopg.Connection) -> int:
    assert value(conn, "SELECT result FROM channel_delete('a')") == "deleted"
    return 0


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    "meanwhile",
    [taken_over, taken_over_and_cancelled, maintained, maintained_and_taken, deleted],
    ids=lambda function: function.__name__,
)
@pytest.mark.parametrize("stop", ["before insert dedupe", "after insert dedupe", "before it changes the row"])
@TAKEN
def test_a_creator_stopped_before_it_takes_over(
    database: SharedDatabase, lives: int, stop: str, meanwhile: Any
) -> None:
    free_key(database, lives)
    observer, two = database.session("observer"), database.session("two")
    if stop == "before it changes the row":  # the row with turn 0 stays, other rows are replaced
        stop = "before update dedupe" if lives == 1 else "before delete dedupe"
    with paused(database, stop, create) as running, fail_on_lock_wait(two):
        others = meanwhile(two)
    made = running.result()
    assert made[1] == ("duplicate" if others else "created")
    check_one_key(observer, 1)


@ENDINGS
@TAKEN
def test_an_open_maintain_is_waited_for(database: SharedDatabase, lives: int, ending: str) -> None:
    free_key(database, lives)
    observer, one = database.session("observer"), database.session("one")
    begin(one)
    maintained(one)
    second = start_waiting(database, "two", "one", create)
    end(one, ending)
    assert second.result(timeout=10)[1] == "created"
    check_one_key(observer, 1)


@ENDINGS
@TAKEN
def test_maintain_leaves_a_key_that_is_being_taken_over(
    database: SharedDatabase, lives: int, ending: str
) -> None:
    free_key(database, lives)
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    observer.execute("UPDATE maintenance SET dedupe_from = 0, dedupe_day = 0")
    begin(one)
    assert create(one)[1] == "created"
    with fail_on_lock_wait(two):
        two.execute("SELECT maintain()")
    end(one, ending)
    check_one_key(observer, 1 if ending == "commit" else 0)
    assert create(two)[1] == ("duplicate" if ending == "commit" else "created")
    check_one_key(observer, 1)


@ENDINGS
@KEYS
@pytest.mark.parametrize("with_messages", [False, True])
def test_channel_delete_against_an_open_creator(
    database: SharedDatabase, with_messages: bool, key: str, ending: str
) -> None:
    """Whatever it deletes, a message that exists afterwards has its key."""
    free_key(database, LIVES[key])
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    observer.execute("SELECT channel_set('a', p_max_concurrency => 5)")
    begin(one)
    assert create(one)[1] == "created"
    deleting = database.start(lambda: value(two, "SELECT result FROM channel_delete('a', %s)", with_messages))
    until(lambda: deleting.done() or database.is_waiting(two, one), "the delete to go on or to wait")
    end(one, ending)
    deleting.result(timeout=10)
    lives = value(observer, "SELECT COUNT(*) FROM message")
    check_one_key(observer, lives)
    assert create(observer)[1] == ("duplicate" if lives else "created")
    check_one_key(observer, 1)


@KEYS
@pytest.mark.parametrize("stop", ["before delete channel", "after delete channel", "delete looks for keys"])
def test_a_key_is_taken_while_channel_delete_is_stopped(
    database: SharedDatabase, stop: str, key: str
) -> None:
    """The delete has found the channel empty, which is no longer true."""
    free_key(database, LIVES[key])
    observer, two = database.session("observer"), database.session("two")
    observer.execute("SELECT channel_set('a', p_max_concurrency => 5)")
    with (
        paused(database, stop, lambda one: one.execute("SELECT channel_delete('a')")) as running,
        fail_on_lock_wait(two),
    ):
        assert create(two)[1] == "created"
    running.result()
    assert create(observer)[1] == "duplicate"
    check_one_key(observer, 1)


# Against the return of the old message.


def dead_holder(database: SharedDatabase, keep_ms: int) -> int:
    conn = database.session("observer")
    conn.execute("SELECT queue_set(p_max_attempts => 1)")
    holder, _ = create(conn, keep_ms)
    delivery = lease(conn)
    assert value(conn, "SELECT message_retry(%s, %s, p_error => 'bad')", holder, delivery.token) == "dead"
    assert holder is not None
    if keep_ms == 0:
        until(lambda: value(conn, IS_FREE) is True, "the key to be free")
    return holder


def retry(conn: psycopg.Connection, message_id: int) -> str:
    return str(value(conn, "SELECT result FROM dead_retry(ARRAY[%s::BIGINT])", message_id))


@ENDINGS
def test_a_retry_waits_for_a_creator(database: SharedDatabase, ending: str) -> None:
    old = dead_holder(database, 0)
    observer, one = database.session("observer"), database.session("one")
    begin(one)
    assert create(one)[1] == "created"
    second = start_waiting(database, "two", "one", lambda two: retry(two, old))
    end(one, ending)
    assert second.result(timeout=10) == ("duplicate" if ending == "commit" else "retried")
    assert value(observer, "SELECT COUNT(*) FROM dead") == (1 if ending == "commit" else 0)
    check_one_key(observer, 1)


@ENDINGS
@pytest.mark.parametrize("keep_ms", [0, 600_000])
def test_a_creator_waits_for_a_retry(database: SharedDatabase, keep_ms: int, ending: str) -> None:
    old = dead_holder(database, keep_ms)
    observer, one = database.session("observer"), database.session("one")
    begin(one)
    assert retry(one, old) == "retried"
    second = start_waiting(database, "two", "one", create)
    end(one, ending)
    made = second.result(timeout=10)
    if ending == "commit" or keep_ms > 0:
        assert made == (old, "duplicate")
    else:
        assert made[1] == "created"
    check_one_key(observer, 1 if ending == "commit" or keep_ms == 0 else 0)


@ENDINGS
def test_two_retries_of_one_message(database: SharedDatabase, ending: str) -> None:
    old = dead_holder(database, 600_000)
    observer, one = database.session("observer"), database.session("one")
    begin(one)
    assert retry(one, old) == "retried"
    second = start_waiting(database, "two", "one", lambda two: retry(two, old))
    end(one, ending)
    assert second.result(timeout=10) == ("not_found" if ending == "commit" else "retried")
    check_one_key(observer, 1)


@pytest.mark.parametrize("stop", ["retry has its dead", "before insert dedupe", "before update dedupe"])
def test_a_retry_stopped_while_another_takes_its_key(database: SharedDatabase, stop: str) -> None:
    old = dead_holder(database, 0)
    observer, two = database.session("observer"), database.session("two")
    with paused(database, stop, lambda one: retry(one, old)) as running, fail_on_lock_wait(two):
        assert create(two)[1] == "created"
    assert running.result() == "duplicate"
    check_one_key(observer, 1)


def test_a_key_is_staged_while_its_batch_is_published(database: SharedDatabase) -> None:
    """Without keys the rows are copied without taking keys, so a row with a key must not slip in."""
    one, two = database.session("one"), database.session("two")
    batch = uuid4()
    stage = "INSERT INTO staging (batch, ord, channel, content, dedupe_key) VALUES (%s, %s, 'a', 'work', %s)"
    one.execute(stage, (batch, 1, None))

    def publish(conn: psycopg.Connection) -> Any:
        return conn.execute("SELECT created FROM staging_publish(%s)", (batch,)).fetchone()

    with paused(database, "publish found no keys", publish) as publishing:
        two.execute(stage, (batch, 2, "k"))
    with pytest.raises(RETRY, match="rows of the batch were staged, published or discarded"):
        publishing.result(timeout=10)
    assert publish(one) == (2,)
    assert create(two)[1] == "duplicate"
    invariants.check(one)
