"""Keys that messages hold only while they wait, which is the default.

A create that returns `duplicate` counts on a message that has not started: its transaction may have written
something that this message is to see. So the message must not start before the transaction ends. If that
cannot be promised, another message is created.
"""

from typing import Any

import psycopg
import pytest

from tests import invariants
from tests.isolation.pausing import install, is_installed, paused
from tests.isolation.shared_database import (
    SharedDatabase,
    dispatch,
    end,
    fail_on_lock_wait,
    take,
    until,
    value,
)

ENDINGS = pytest.mark.parametrize("ending", ["commit", "rollback"])

Made = tuple[int | None, str]


def create(conn: psycopg.Connection, more: str = "") -> Made:
    row = conn.execute(
        f"SELECT id, result FROM message_create('a', 'work', p_dedupe_key => 'k'{more})"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def ready(conn: psycopg.Connection, lives: int = 0) -> int:
    """A message that holds the key and is ready to be served. `lives` messages had the key before."""
    for _ in range(lives):
        create(conn)
        complete(conn, take_one(conn))
    first, result = create(conn)
    assert result == "created"
    assert first is not None
    dispatch(conn)
    return first


def take_one(conn: psycopg.Connection) -> invariants.Delivery:
    dispatch(conn)
    (delivery,) = take(conn, 1)
    return delivery


def complete(conn: psycopg.Connection, delivery: invariants.Delivery) -> None:
    assert value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token) == "completed"


def served_in_time(conn: psycopg.Connection) -> list[int]:
    """What is served within a few seconds: a message that was set aside comes back after one."""
    found: list[int] = []

    def is_served() -> bool:
        dispatch(conn)
        found.extend(delivery.id for delivery in take(conn))
        return bool(found)

    until(is_served, "a message to be served")
    return found


LIVES = pytest.mark.parametrize("lives", [0, 1, 2])


@ENDINGS
@LIVES
def test_a_message_does_not_start_while_a_create_counts_on_it(
    database: SharedDatabase, lives: int, ending: str
) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    first = ready(observer, lives)
    one.execute("BEGIN")
    assert create(one) == (first, "duplicate")
    with fail_on_lock_wait(two):
        assert take(two) == []
        dispatch(two)
        assert take(two) == []
    end(one, ending)
    assert served_in_time(two) == [first]
    assert create(two)[1] == "created"
    invariants.check(observer)


def test_it_does_not_start_before_all_of_them_have_ended(database: SharedDatabase) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    first = ready(observer)
    for conn in (one, two):
        conn.execute("BEGIN")
        with fail_on_lock_wait(conn):
            assert create(conn) == (first, "duplicate")
    end(one, "commit")
    assert take(observer) == []
    end(two, "commit")
    assert served_in_time(observer) == [first]


@LIVES
def test_a_message_whose_turn_has_come_waits_for_no_later_create(
    database: SharedDatabase, lives: int
) -> None:
    """Otherwise creates that overlap all the time would keep it from starting for ever."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    first = ready(observer, lives)
    one.execute("BEGIN")
    assert create(one) == (first, "duplicate")
    assert take(observer) == [], "a dequeue wants it, and sets it aside"
    two.execute("BEGIN")
    with fail_on_lock_wait(two):
        second, result = create(two)
        assert result == "created"
    with fail_on_lock_wait(observer):
        dispatch(observer)
        assert take(observer) == []
    end(one, "commit")
    assert served_in_time(observer) == [first], "although the second transaction is open"
    end(two, "commit")
    assert create(one) == (second, "duplicate")
    assert served_in_time(observer) == [second]
    invariants.check(observer)


@ENDINGS
def test_two_creates_while_the_key_is_locked(database: SharedDatabase, ending: str) -> None:
    """The second waits for the first, and for nobody else."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    three = database.session("three")
    first = ready(observer)
    one.execute("BEGIN")
    assert create(one) == (first, "duplicate")
    assert take(observer) == []
    two.execute("BEGIN")
    made = create(two)
    assert made[1] == "created"
    third: Any = database.start(lambda: create(three))
    until(lambda: third.done() or database.is_waiting(three, two), "the third to wait for the second")
    assert not third.done()
    end(two, ending)
    found = third.result(timeout=10)
    assert found == (made[0], "duplicate") if ending == "commit" else found[1] == "created"
    end(one, "rollback")
    assert len(served_in_time(observer)) >= 1
    invariants.check(observer)


def test_others_are_served_meanwhile(database: SharedDatabase) -> None:
    observer, one = database.session("observer"), database.session("one")
    first = ready(observer)
    other = value(observer, "SELECT id FROM message_create('a', 'other')")
    one.execute("BEGIN")
    assert create(one) == (first, "duplicate")
    dispatch(observer)
    assert [delivery.id for delivery in take(observer)] == [other]
    end(one, "commit")
    assert served_in_time(observer) == [first]


@LIVES
def test_a_message_starts_while_a_create_looks_at_it(database: SharedDatabase, lives: int) -> None:
    """It has started before the create has locked the key: another message is created."""
    observer, two = database.session("observer"), database.session("two")
    first = ready(observer, lives)
    with paused(database, "create has looked at the holder", create) as creating, fail_on_lock_wait(two):
        delivery = take(two)[0]
        assert delivery.id == first
        complete(two, delivery)
    made = creating.result()
    assert made[1] == "created"
    assert create(two) == (made[0], "duplicate")
    invariants.check(observer)


def test_a_dequeue_comes_while_a_create_has_the_key(database: SharedDatabase) -> None:
    """Both step back: the message is set aside, and the create looks once more and makes another one."""
    observer, two = database.session("observer"), database.session("two")
    first = ready(observer)
    with paused(database, "create has locked the key", create) as creating, fail_on_lock_wait(two):
        assert take(two) == []
    second, result = creating.result()
    assert result == "created"
    served = served_in_time(two)
    while len(served) < 2:
        served += served_in_time(two)
    assert sorted(served) == [first, second]


@pytest.mark.parametrize("stop", ["dequeue has its entries", "dequeue has its messages"])
@LIVES
def test_a_create_comes_while_a_dequeue_takes_the_message(
    database: SharedDatabase, lives: int, stop: str
) -> None:
    observer, two = database.session("observer"), database.session("two")
    first = ready(observer, lives)
    with paused(database, stop, take) as taking, fail_on_lock_wait(two):
        made = create(two)
        assert made[1] == "created"
        assert create(two) == (made[0], "duplicate")
    assert [delivery.id for delivery in taking.result()] == [first]
    assert [delivery.id for delivery in [take_one(observer)]] == [made[0]]
    invariants.check(observer)


@pytest.mark.parametrize("had_duplicates", [False, True])
@ENDINGS
@LIVES
def test_an_open_dequeue_delays_no_create(
    database: SharedDatabase, lives: int, ending: str, *, had_duplicates: bool
) -> None:
    """Even if its message had duplicates, and so somebody has locked the key before."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    first = ready(observer, lives)
    if had_duplicates:
        assert create(two) == (first, "duplicate")
    one.execute("BEGIN")
    assert [delivery.id for delivery in take(one)] == [first]
    with fail_on_lock_wait(two):
        made = create(two)
        assert made[1] == "created"
        assert create(two) == (made[0], "duplicate")
    end(one, ending)
    assert create(two) == (made[0], "duplicate")
    dispatch(observer)
    assert sorted(delivery.id for delivery in take(observer)) == (
        [made[0]] if ending == "commit" else [first, made[0]]
    )
    invariants.check(observer)


@pytest.mark.parametrize("more", ["", ", p_unique_while => 'running'"])
@ENDINGS
@LIVES
def test_an_open_create_delays_no_finisher(
    database: SharedDatabase, lives: int, ending: str, more: str
) -> None:
    """It has taken the key over from a message that runs."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    first = ready(observer, lives)
    delivery = take_one(observer)
    one.execute("BEGIN")
    assert create(one, more)[1] == "created"
    with fail_on_lock_wait(two):
        complete(two, delivery)
    end(one, ending)
    assert create(observer)[1] == ("duplicate" if ending == "commit" else "created")
    assert value(observer, "SELECT COUNT(*) FROM message WHERE id = %s", first) == 0
    invariants.check(observer)


@ENDINGS
@LIVES
def test_a_returned_message_starts_while_its_key_is_taken_over(
    database: SharedDatabase, lives: int, ending: str
) -> None:
    """The open create does not count on it."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    first = ready(observer, lives)
    delivery = take_one(observer)
    one.execute("BEGIN")
    made = create(one)
    assert made[1] == "created"
    assert value(two, "SELECT message_retry(%s, %s)", delivery.id, delivery.token) == "retried"
    with fail_on_lock_wait(two):
        dispatch(two)
        assert [found.id for found in take(two)] == [first]
    end(one, ending)
    invariants.check(observer)


@ENDINGS
@LIVES
def test_two_creates_while_the_holder_runs(database: SharedDatabase, lives: int, ending: str) -> None:
    """The second waits for the first."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ready(observer, lives)
    take_one(observer)
    one.execute("BEGIN")
    made = create(one)
    assert made[1] == "created"
    second: Any = database.start(lambda: create(two))
    until(lambda: second.done() or database.is_waiting(two, one), "the second to wait")
    assert not second.done()
    end(one, ending)
    found = second.result(timeout=10)
    assert found == (made[0], "duplicate") if ending == "commit" else found[1] == "created"
    assert value(observer, "SELECT COUNT(*) FROM message") == 2
    invariants.check(observer)


@ENDINGS
def test_a_cancel_does_not_wait_for_a_create_that_counts_on_the_message(
    database: SharedDatabase, ending: str
) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    first = ready(observer)
    one.execute("BEGIN")
    assert create(one) == (first, "duplicate")
    with fail_on_lock_wait(two):
        assert value(two, "SELECT message_cancel(%s)", first) == "cancelled"
        assert create(two)[1] == "created"
    end(one, ending)
    invariants.check(observer)


@pytest.mark.parametrize("call", ["maintain", "channel_delete"])
def test_a_key_is_taken_over_while_it_is_deleted(database: SharedDatabase, call: str) -> None:
    """The row was locked for a finished message; by the time of the delete it belongs to another one."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ready(observer)
    complete(observer, take_one(observer))
    observer.execute("UPDATE dedupe SET check_at = 1")
    one.execute("BEGIN")
    made = create(one)
    assert made[1] == "created"
    queries = {"maintain": "SELECT maintain()", "channel_delete": "SELECT result FROM channel_delete('a')"}
    deleting: Any = database.start(lambda: value(two, queries[call]))
    until(lambda: deleting.done() or database.is_waiting(two, one), "the delete to go on or to wait")
    end(one, "commit")
    deleting.result(timeout=10)
    assert create(observer) == (made[0], "duplicate")
    invariants.check(observer)


@pytest.mark.parametrize("call", ["maintain", "channel_delete"])
def test_a_key_with_another_row_is_not_deleted(database: SharedDatabase, call: str) -> None:
    """An open create has added a row beside that of a cancelled message, on which a create had counted."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    first = ready(observer)
    one.execute("BEGIN")
    assert create(one) == (first, "duplicate")
    assert value(observer, "SELECT message_cancel(%s)", first) == "cancelled"
    two.execute("BEGIN")
    made = create(two)
    assert made[1] == "created"
    end(one, "commit")
    observer.execute("UPDATE maintenance SET dedupe_from = 0, dedupe_day = 0")
    queries = {
        "maintain": "UPDATE dedupe SET check_at = 1; SELECT maintain()",
        "channel_delete": "SELECT result FROM channel_delete('a')",
    }
    with fail_on_lock_wait(observer):
        observer.execute(queries[call])
    end(two, "commit")
    assert create(observer) == (made[0], "duplicate")
    invariants.check(observer)


@LIVES
@pytest.mark.parametrize(
    ("level", "more"),
    [
        ("READ COMMITTED", ""),
        ("READ COMMITTED", ", p_unique_while => 'running'"),
        ("REPEATABLE READ", ", p_unique_while => 'running'"),
    ],
)
def test_two_take_over_a_key_that_a_third_has_locked(
    database: SharedDatabase, lives: int, level: str, more: str
) -> None:
    holder, other = database.session("holder"), database.session("other")
    if not is_installed(other):
        install(other)  # which needs tables that nobody has locked
    first = ready(other, lives)
    holder.execute("BEGIN")
    assert create(holder) == (first, "duplicate")
    assert value(other, "SELECT message_cancel(%s)", first) == "cancelled"

    def call(conn: psycopg.Connection) -> Made:
        conn.execute(f"SET default_transaction_isolation TO '{level.lower()}'")
        return create(conn, more)

    with paused(database, "create has read the key", call) as taking:
        second, result = create(other)
        assert result == "created"
        holder.execute("COMMIT")
    if level == "READ COMMITTED":
        assert taking.result(timeout=10) == (second, "duplicate")
    else:
        with pytest.raises(psycopg.errors.SerializationFailure):
            taking.result(timeout=10)
    database.session("one").execute("RESET default_transaction_isolation")
    assert served_in_time(other) == [second]
    invariants.check(other)
