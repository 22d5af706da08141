"""No wake-up is lost: a writer, stopped at each of its steps, against a consumer that falls asleep
meanwhile.

There are two good outcomes: the consumer is not sure, and finds the work at a later look; or it is sure,
and is notified when the writer commits.
"""

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pytest

from tests import invariants
from tests.database import unique_name
from tests.isolation.pausing import paused
from tests.isolation.shared_database import (
    TIMEOUT_S,
    SharedDatabase,
    dispatch,
    end,
    fail_on_lock_wait,
    take,
    until,
    value,
)
from tests.isolation.sleeper import Sleeper

HOUR_MS = 3_600_000
NOTIFIED_CANNOT_PREPARE = psycopg.errors.FeatureNotSupported

Call = tuple[str, tuple[Any, ...]]


class Writer(NamedTuple):
    """A call that makes work available when it commits; `prepare` sets up a queue without any."""

    prepare: Callable[[psycopg.Connection], Call]
    first_write: str


def no_scene(query: str) -> Callable[[psycopg.Connection], Call]:
    return lambda _conn: (query, ())


def leased(conn: psycopg.Connection, count: int = 1, **options: Any) -> invariants.Delivery:
    """Create `count` messages and lease one; the caller makes sure that the others cannot be leased."""
    for _ in range(count):
        conn.execute(
            "SELECT message_create('a', 'work', p_max_attempts => %s)", (options.get("max_attempts"),)
        )
    dispatch(conn)
    (delivery,) = take(conn, 1)
    return delivery


def to_retry(conn: psycopg.Connection) -> Call:
    delivery = leased(conn)
    return "SELECT message_retry(%s, %s)", (delivery.id, delivery.token)


def to_complete(conn: psycopg.Connection) -> Call:
    conn.execute("SELECT channel_set('a', p_max_concurrency => 1)")
    delivery = leased(conn, 2)
    return "SELECT message_complete(%s, %s)", (delivery.id, delivery.token)


def to_complete_under_the_queues_limit(conn: psycopg.Connection) -> Call:
    conn.execute("SELECT queue_set(p_max_concurrency => 1)")
    delivery = leased(conn, 2)
    return "SELECT message_complete_many(%s, %s)", ([delivery.id], [delivery.token])


def to_park(conn: psycopg.Connection) -> Call:
    """A retry that uses up the last attempt frees the slot for the next message."""
    conn.execute("SELECT channel_set('a', p_max_concurrency => 1)")
    delivery = leased(conn, 2, max_attempts=1)
    return "SELECT message_retry(%s, %s, p_error => 'bad')", (delivery.id, delivery.token)


def to_reschedule(conn: psycopg.Connection) -> Call:
    message_id = value(conn, "SELECT id FROM message_create('a', 'later', clock_ms() + %s)", HOUR_MS)
    return "SELECT message_reschedule(%s)", (message_id,)


def to_retry_dead(conn: psycopg.Connection) -> Call:
    delivery = leased(conn, max_attempts=1)
    done = value(conn, "SELECT message_retry(%s, %s, p_error => 'bad')", delivery.id, delivery.token)
    assert done == "dead"
    return "SELECT dead_retry(%s)", ([delivery.id],)


def to_unpause(conn: psycopg.Connection) -> Call:
    conn.execute("SELECT message_create('a', 'work')")
    conn.execute("SELECT channel_set('a', p_paused => TRUE)")
    return "SELECT channel_set('a', p_paused => FALSE)", ()


def to_raise(conn: psycopg.Connection) -> Call:
    conn.execute("SELECT channel_set('a', p_max_concurrency => 1)")
    leased(conn, 2)
    return "SELECT channel_set('a', p_max_concurrency => 2)", ()


def to_unpause_the_queue(conn: psycopg.Connection) -> Call:
    conn.execute("SELECT message_create('a', 'work')")
    conn.execute("SELECT queue_set(p_paused => TRUE)")
    return "SELECT queue_set(p_paused => FALSE)", ()


def to_raise_the_queues_limit(conn: psycopg.Connection) -> Call:
    conn.execute("SELECT queue_set(p_max_concurrency => 1)")
    leased(conn, 2)
    return "SELECT queue_set(p_max_concurrency => 2)", ()


def to_lift_the_queues_limit(conn: psycopg.Connection) -> Call:
    conn.execute("SELECT queue_set(p_max_concurrency => 1)")
    leased(conn, 2)
    return "SELECT queue_set(p_max_concurrency => 0)", ()


def to_publish(conn: psycopg.Connection) -> Call:
    conn.execute(
        "INSERT INTO staging (batch, ord, channel, content) VALUES "
        "('00000000-0000-0000-0000-000000000001', 1, 'a', 'work')"
    )
    return "SELECT staging_publish('00000000-0000-0000-0000-000000000001')", ()


WRITERS = {
    "create": Writer(no_scene("SELECT message_create('a', 'work')"), "before insert message"),
    "create with a key": Writer(
        no_scene("SELECT message_create('a', 'work', p_dedupe_key => 'k', p_unique_while => 'running')"),
        "before insert dedupe",
    ),
    "create_many": Writer(
        no_scene("SELECT message_create_many(ARRAY['a'], ARRAY['work'::BYTEA])"), "before insert message"
    ),
    "publish": Writer(to_publish, "before insert message"),
    "retry": Writer(to_retry, "before update message"),
    "complete, limited": Writer(to_complete, "before delete message"),
    "complete_many, limited": Writer(to_complete_under_the_queues_limit, "before delete message"),
    "park, limited": Writer(to_park, "before delete message"),
    "reschedule": Writer(to_reschedule, "before update message"),
    "retry of a dead letter": Writer(to_retry_dead, "retry has its dead"),
    "unpause": Writer(to_unpause, "before insert channel"),
    "raise": Writer(to_raise, "before insert channel"),
    "unpause the queue": Writer(to_unpause_the_queue, "before update queue"),
    "raise the queue's limit": Writer(to_raise_the_queues_limit, "before update queue"),
    "lift the queue's limit": Writer(to_lift_the_queues_limit, "before update queue"),
}
# They write to other tables first; stopped there, they have not read yet whether a consumer sleeps.
BEGIN_ELSEWHERE = {
    *("create with a key", "retry of a dead letter", "unpause", "raise"),
    *("unpause the queue", "raise the queue's limit", "lift the queue's limit"),
}
# Reads whether a consumer sleeps in the statement that appends.
LOOKS_AT_ONCE = {"create", "create_many", "publish"}

READ_COMMITTED_ONLY = {"reschedule"}
NAME = unique_name("prepared")  # of a prepared transaction: these belong to all databases
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

each_writer = pytest.mark.parametrize("writer", WRITERS)
each_writer_at_each_level = pytest.mark.parametrize(
    ("writer", "level"),
    [
        (writer, level)
        for writer in WRITERS
        for level in LEVELS
        if level == "READ COMMITTED" or writer not in READ_COMMITTED_ONLY
    ],
)


def prepare(database: SharedDatabase, writer: str) -> Call:
    observer = database.session("observer")
    call = WRITERS[writer].prepare(observer)
    dispatch(observer)
    assert take(observer) == [], "the busy leaves work"
    dispatch(observer)
    return call


def sleeper(database: SharedDatabase, name: str = "consumer") -> Sleeper:
    conn = database.session(name)
    conn.execute("UNLISTEN *")
    return Sleeper(conn)


# The writer is stopped inside its call.


@pytest.mark.cases(12)
@pytest.mark.parametrize("is_listed", [False, True], ids=["nobody sleeps yet", "another one sleeps"])
@pytest.mark.parametrize(
    "stop", ["first write", "before insert notice", "after insert notice", "writer has appended"]
)
@each_writer
def test_a_consumer_falls_asleep_while_the_writer_is_stopped(
    database: SharedDatabase, writer: str, stop: str, is_listed: bool
) -> None:
    if stop == "writer has appended" and writer in LOOKS_AT_ONCE:
        return
    at = WRITERS[writer].first_write if stop == "first write" else stop
    query, parameters = prepare(database, writer)
    if is_listed:
        assert sleeper(database, "another").try_to_sleep()
    consumer = sleeper(database)
    with paused(database, at, lambda one: one.execute(query, parameters)) as running:
        is_asleep = consumer.try_to_sleep()
    running.result()
    assert is_asleep == (stop == "first write" and writer in BEGIN_ELSEWHERE)
    assert len(consumer.pick_up(is_asleep=is_asleep)) == 1


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    "stop", ["first write", "before insert notice", "after insert notice", "writer has appended"]
)
@each_writer
def test_one_that_sleeps_already_is_notified(database: SharedDatabase, writer: str, stop: str) -> None:
    """It wakes, finds nothing, and sleeps again while the writer is stopped: its generation is valid."""
    if stop == "writer has appended" and writer in LOOKS_AT_ONCE:
        return
    at = WRITERS[writer].first_write if stop == "first write" else stop
    query, parameters = prepare(database, writer)
    consumer = sleeper(database)
    assert consumer.try_to_sleep()
    with paused(database, at, lambda one: one.execute(query, parameters)) as running:
        assert consumer.try_to_sleep()
    running.result()
    assert len(consumer.pick_up(is_asleep=True)) == 1


@pytest.mark.parametrize("is_listed", [False, True], ids=["nobody sleeps yet", "another one sleeps"])
def test_a_create_that_has_locked_nothing_yet_will_see_who_sleeps(
    database: SharedDatabase, is_listed: bool
) -> None:
    if is_listed:
        assert sleeper(database, "another").try_to_sleep()
    consumer, create = sleeper(database), "SELECT message_create('a', 'work')"
    with paused(database, "create begins", lambda one: one.execute(create)) as running:
        assert consumer.try_to_sleep()
    running.result()
    assert len(consumer.pick_up(is_asleep=True)) == 1


# The writer's transaction is left open after its call.


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@each_writer
def test_a_writer_left_open(database: SharedDatabase, writer: str, ending: str) -> None:
    query, parameters = prepare(database, writer)
    consumer, one = sleeper(database), database.session("one")
    one.execute("BEGIN")
    one.execute(query, parameters)
    assert not consumer.try_to_sleep(), "it is sure, and the writer believes that nobody sleeps"
    end(one, ending)
    if ending == "commit":
        assert len(consumer.pick_up()) == 1
    else:
        assert consumer.try_to_sleep()
        assert not consumer.heard


@pytest.mark.cases(12)
@each_writer_at_each_level
def test_a_snapshot_from_before_the_consumer_slept(database: SharedDatabase, writer: str, level: str) -> None:
    """No lock is held, so the consumer is sure; the writer cannot see that it sleeps, and must notify in
    any case.
    """
    query, parameters = prepare(database, writer)
    consumer, one = sleeper(database), database.session("one")
    one.execute(f"BEGIN ISOLATION LEVEL {level}")
    assert value(one, "SELECT is_asleep FROM sleep") is False
    assert consumer.try_to_sleep()
    one.execute(query, parameters)
    end(one, "commit")
    assert len(consumer.pick_up(is_asleep=True)) == 1


# Savepoints: what is rolled back gives its lock on notice and its notification back.


@each_writer
def test_a_savepoint_that_is_rolled_back_and_done_again(database: SharedDatabase, writer: str) -> None:
    query, parameters = prepare(database, writer)
    consumer, one = sleeper(database), database.session("one")
    one.execute("BEGIN")
    one.execute("SAVEPOINT s")
    one.execute(query, parameters)
    assert not consumer.try_to_sleep()
    one.execute("ROLLBACK TO s")
    assert consumer.try_to_sleep(), "nothing is under way"
    one.execute(query, parameters)
    end(one, "commit")
    assert len(consumer.pick_up(is_asleep=True)) == 1


@each_writer
def test_a_savepoint_rolled_back_after_an_append_that_stands(database: SharedDatabase, writer: str) -> None:
    query, parameters = prepare(database, writer)
    consumer, one = sleeper(database), database.session("one")
    one.execute("BEGIN")
    one.execute(query, parameters)
    one.execute("SAVEPOINT s")
    one.execute("SELECT message_create('b', 'given up')")
    assert not consumer.try_to_sleep()
    one.execute("ROLLBACK TO s")
    assert not consumer.try_to_sleep(), "the first append is still under way"
    end(one, "commit")
    assert len(consumer.pick_up()) == 1


def test_what_is_rolled_back_notifies_nobody(database: SharedDatabase) -> None:
    consumer, one = sleeper(database), database.session("one")
    assert consumer.try_to_sleep()
    one.execute("BEGIN")
    one.execute("SAVEPOINT s")
    one.execute("SELECT message_create('a', 'given up')")
    one.execute("ROLLBACK TO s")
    end(one, "commit")
    assert heard_until_the_probe(consumer, one) == 0


# Prepared transactions.


def test_a_create_that_notified_cannot_be_prepared(database: SharedDatabase) -> None:
    consumer, one = sleeper(database), database.session("one")
    assert consumer.try_to_sleep()
    one.execute("BEGIN")
    one.execute("SELECT message_create('a', 'work')")
    with pytest.raises(NOTIFIED_CANNOT_PREPARE):
        one.execute(f"PREPARE TRANSACTION '{NAME}'")
    one.execute("ROLLBACK")


@pytest.mark.cases(12)
@each_writer_at_each_level
def test_without_notifications_all_that_delays_nobody_can_be_prepared(
    database: SharedDatabase, writer: str, level: str
) -> None:
    query, parameters = prepare(database, writer)
    consumer, one, observer = sleeper(database), database.session("one"), database.session("observer")
    assert consumer.try_to_sleep()
    observer.execute("SELECT queue_set(p_notify => FALSE)")
    assert consumer.is_notified(), "it relied on being told"
    one.execute(f"BEGIN ISOLATION LEVEL {level}")
    one.execute(query, parameters)
    one.execute(f"PREPARE TRANSACTION '{NAME}'")
    try:
        assert not consumer.try_to_sleep()
    finally:
        one.execute(f"COMMIT PREPARED '{NAME}'")
    assert len(consumer.pick_up()) == 1


def test_a_prepared_create_keeps_consumers_from_sleeping(database: SharedDatabase) -> None:
    """No consumer slept when it was written, so it does not notify; its lock, which belongs to no session,
    is seen.
    """
    consumer, one = sleeper(database), database.session("one")
    one.execute("BEGIN")
    one.execute("SELECT message_create('a', 'work')")
    one.execute(f"PREPARE TRANSACTION '{NAME}'")
    try:
        assert not consumer.try_to_sleep()
    finally:
        one.execute(f"COMMIT PREPARED '{NAME}'")
    assert len(consumer.pick_up()) == 1


@pytest.mark.parametrize("stop", ["before update sleep", "after update sleep"])
def test_notifications_are_switched_off_while_a_consumer_registers(
    database: SharedDatabase, stop: str
) -> None:
    """No consumer sleeps afterwards, so nothing is notified, and creates can be prepared."""
    observer, one = database.session("observer"), database.session("one")
    with paused(database, stop, lambda conn: conn.execute("SELECT sleep_begin()")) as running:
        switching = database.start(lambda: observer.execute("SELECT queue_set(p_notify => FALSE)"))
        until(lambda: switching.done() or observer_waits(database, observer, one), "it to go on or wait")
    running.result()
    switching.result(timeout=10)
    one.execute("BEGIN")
    one.execute("SELECT message_create('a', 'work')")
    one.execute(f"PREPARE TRANSACTION '{NAME}'")
    one.execute(f"ROLLBACK PREPARED '{NAME}'")


def observer_waits(database: SharedDatabase, waiter: psycopg.Connection, holder: psycopg.Connection) -> bool:
    """Like SharedDatabase.is_waiting, for when the observer is the session that waits."""
    watcher = database.session("watcher")
    blocking: list[int] = value(watcher, "SELECT pg_blocking_pids(%s)", waiter.info.backend_pid)
    return holder.info.backend_pid in blocking


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("writer", ["create", "create_many"])
def test_notifications_are_switched_on_while_a_writer_is_open(
    database: SharedDatabase, writer: str, level: str
) -> None:
    query, parameters = prepare(database, writer)
    consumer, one, observer = sleeper(database), database.session("one"), database.session("observer")
    observer.execute("SELECT queue_set(p_notify => FALSE)")
    one.execute(f"BEGIN ISOLATION LEVEL {level}")
    one.execute(query, parameters)
    observer.execute("SELECT queue_set(p_notify => TRUE)")
    assert not consumer.try_to_sleep()
    end(one, "commit")
    assert len(consumer.pick_up()) == 1


@pytest.mark.parametrize("stop", ["create begins", "before insert message"])
def test_notifications_are_switched_on_while_a_create_is_stopped(database: SharedDatabase, stop: str) -> None:
    consumer, observer = sleeper(database), database.session("observer")
    observer.execute("SELECT queue_set(p_notify => FALSE)")
    create = "SELECT message_create('a', 'work')"
    with paused(database, stop, lambda one: one.execute(create)) as running:
        observer.execute("SELECT queue_set(p_notify => TRUE)")
        is_asleep = consumer.try_to_sleep()
    running.result()
    assert len(consumer.pick_up(is_asleep=is_asleep)) == 1


# Several consumers, and the generation they rely on.


@pytest.mark.parametrize("stop", ["before update sleep", "after update sleep"])
def test_two_register_at_once(database: SharedDatabase, stop: str) -> None:
    first, second = sleeper(database, "one"), sleeper(database, "two")
    with paused(database, stop, lambda _one: first.await_wake()) as running, fail_on_lock_wait(second.conn):
        was_sure = second.await_wake()
        assert second.look() == []
    assert running.result() is False
    assert was_sure is False
    assert first.try_to_sleep()
    assert second.try_to_sleep()
    database.session("observer").execute("SELECT message_create('a', 'work')")
    assert first.is_notified()
    assert second.is_notified()
    assert len(first.pick_up()) == 1


def test_the_second_to_register_is_not_sure_of_what_the_first_did_not_commit(
    database: SharedDatabase,
) -> None:
    """A registration that is rolled back does not count."""
    first, second, writer = sleeper(database, "one"), sleeper(database, "two"), database.session("three")
    first.conn.execute("BEGIN")
    first.await_wake()
    with fail_on_lock_wait(second.conn):
        assert not second.try_to_sleep()
    end(first.conn, "rollback")
    assert second.try_to_sleep()
    writer.execute("SELECT message_create('a', 'work')")
    assert len(second.pick_up(is_asleep=True)) == 1


def many_notices_without_notification(conn: psycopg.Connection) -> None:
    """Many creates of messages that are due in an hour: a dispatch that reads them is a busy one."""
    conn.execute(
        "SELECT message_create('busy ' || i, 'x', clock_ms() + %s) FROM generate_series(1, 20) i", (HOUR_MS,)
    )


def test_a_busy_dispatch_ends_the_sleep_that_another_relies_on(database: SharedDatabase) -> None:
    consumer, observer, one = sleeper(database), database.session("observer"), database.session("one")
    assert consumer.try_to_sleep()
    many_notices_without_notification(observer)
    dispatch(observer)
    assert value(observer, "SELECT is_asleep FROM sleep") is False
    one.execute("SELECT message_create('a', 'work')")
    assert len(consumer.pick_up(is_asleep=True)) == 1


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("writes", ["before the dispatch's end", "after the dispatch's end"])
def test_a_sleep_is_being_ended(database: SharedDatabase, writes: str, ending: str) -> None:
    """Until the dispatch commits the old generation is valid and writers notify; then all consumers are
    notified.
    """
    consumer, observer, one = sleeper(database), database.session("observer"), database.session("one")
    assert consumer.try_to_sleep()
    many_notices_without_notification(observer)
    observer.execute("BEGIN")
    observer.execute("SELECT dispatch()")
    assert consumer.await_wake(), "its generation stands"
    if writes.startswith("before"):
        one.execute("SELECT message_create('a', 'work')")
        end(observer, ending)
    else:
        end(observer, ending)
        one.execute("SELECT message_create('a', 'work')")
    assert len(consumer.pick_up(is_asleep=True)) == 1


@pytest.mark.parametrize("stop", ["before update sleep", "after update sleep"])
def test_one_falls_asleep_while_a_dispatch_ends_the_sleep(database: SharedDatabase, stop: str) -> None:
    """It finds the old generation and is sure of it, so it must be notified when that ends."""
    first, consumer = sleeper(database, "two"), sleeper(database)
    observer, writer = database.session("observer"), database.session("three")
    assert first.try_to_sleep()
    many_notices_without_notification(observer)
    with paused(database, stop, lambda one: one.execute("SELECT dispatch()")) as running:
        assert consumer.await_wake()
    running.result()
    writer.execute("SELECT message_create('a', 'work')")
    assert len(consumer.pick_up(is_asleep=True)) == 1


@pytest.mark.parametrize("stop", ["before insert notice", "after insert notice"])
def test_a_writer_that_saw_nobody_asleep_between_two_generations(database: SharedDatabase, stop: str) -> None:
    """Asleep, ended, asleep again: the writer read the state in between, so the consumer is not sure."""
    consumer, observer = sleeper(database), database.session("observer")
    assert consumer.try_to_sleep()
    many_notices_without_notification(observer)
    dispatch(observer)
    with paused(database, stop, lambda one: one.execute("SELECT message_create('a', 'work')")) as running:
        assert not consumer.try_to_sleep(), "its old generation is worth nothing"
    running.result()
    assert len(consumer.pick_up()) == 1


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_one_starts_to_listen_between_two_notifications(database: SharedDatabase, ending: str) -> None:
    earlier, one, two = sleeper(database, "three"), database.session("one"), database.session("two")
    assert earlier.try_to_sleep()
    for writer, channel in ((one, "a"), (two, "b")):
        writer.execute("BEGIN")
        writer.execute("SELECT message_create(%s, 'work')", (channel,))
    end(one, ending)
    consumer = sleeper(database)
    assert not consumer.await_wake(), "the second one is under way, and began before it listened"
    assert len(consumer.look()) == (ending == "commit")
    end(two, "commit")
    (delivery,) = consumer.pick_up()
    assert delivery.channel == "b"


# No needless notifications.


def heard_until_the_probe(consumer: Sleeper, conn: psycopg.Connection) -> int:
    """How many notifications it got. They arrive in the order of the commits, so the probe is the last."""
    told = value(conn, "SELECT notify_channel FROM queue_get()")
    conn.execute("SELECT pg_notify(%s, 'probe')", (told,))

    def is_probed() -> bool:
        consumer.conn.execute("SELECT")
        return any(notification.payload == "probe" for notification in consumer.heard)

    until(is_probed, "the probe to be heard")
    return len(consumer.heard) - 1


@each_writer
def test_nothing_is_notified_while_no_consumer_sleeps(database: SharedDatabase, writer: str) -> None:
    query, parameters = prepare(database, writer)
    listener, one = sleeper(database), database.session("one")
    listener.heard.clear()
    one.execute(query, parameters)
    assert heard_until_the_probe(listener, one) == 0


@pytest.mark.parametrize(
    ("ahead_ms", "told"), [(-HOUR_MS, 1), (0, 1), (500, 1), (1_500, 0), (HOUR_MS, 0)], ids=str
)
@pytest.mark.parametrize("form", ["one", "many", "many, the first of them now"])
def test_what_is_due_in_more_than_a_second_is_not_notified(
    database: SharedDatabase, form: str, ahead_ms: int, told: int
) -> None:
    """Consumers do not sleep longer than a second; the next look sees when it is due."""
    consumer, one = sleeper(database), database.session("one")
    assert consumer.try_to_sleep()
    if form == "one":
        one.execute("SELECT message_create('a', 'work', clock_ms() + %s)", (ahead_ms,))
    else:
        first = "NULL" if "now" in form else f"clock_ms() + {ahead_ms}"
        one.execute(
            f"SELECT message_create_many(ARRAY['a', 'b'], ARRAY['1'::BYTEA, '2'], "
            f"ARRAY[clock_ms() + {ahead_ms}, {first}])"
        )
    assert heard_until_the_probe(consumer, one) == (1 if "now" in form else told)


# All at once.


class Stress:
    """Rounds of single messages: the next round begins when all messages of the last one were picked up."""

    def __init__(self, database: SharedDatabase) -> None:
        self.database = database
        self.picked: set[int] = set()
        self.changed = threading.Condition()
        self.is_over = False

    def consume(self, consumer: Sleeper) -> None:
        while not self.is_over:
            is_sure = consumer.await_wake()
            deliveries = consumer.look()
            if deliveries:
                self.take(consumer, deliveries)
            elif not is_sure or consumer.again_ms < 900:
                time.sleep(0.001)
            else:
                consumer.is_notified(3 * TIMEOUT_S)

    def take(self, consumer: Sleeper, deliveries: list[invariants.Delivery]) -> None:
        consumer.conn.execute(
            "SELECT message_complete_many(%s, %s)",
            ([delivery.id for delivery in deliveries], [delivery.token for delivery in deliveries]),
        )
        with self.changed:
            self.picked.update(delivery.id for delivery in deliveries)
            self.changed.notify()

    def produce(self, name: str, wait: float) -> int:
        time.sleep(wait)
        return int(value(self.database.session(name), "SELECT id FROM message_create(%s, 'lone')", name))

    def await_all(self, ids: set[int]) -> None:
        with self.changed:
            is_done = self.changed.wait_for(lambda: ids <= self.picked, TIMEOUT_S)
        assert is_done, f"never picked up: {ids - self.picked}"


@pytest.mark.parametrize("seconds", [2, pytest.param(6, marks=pytest.mark.long)])
def test_lone_messages_against_consumers_that_never_poll(database: SharedDatabase, seconds: int) -> None:
    """Every few rounds a busy dispatch ends the sleep, so that consumers have to register again."""
    stress, chance = Stress(database), random.Random(815)
    observer = database.session("observer")
    consumers = [sleeper(database, f"consumer {number}") for number in range(3)]
    producers = [f"producer {number}" for number in range(4)]
    for name in producers:
        database.session(name)
    running = [database.start(partial(stress.consume, consumer)) for consumer in consumers]
    ends_before = value(observer, "SELECT MAX(id) FROM sleep")

    def has_seen_enough() -> bool:
        return len(stress.picked) > 100 and value(observer, "SELECT MAX(id) FROM sleep") > ends_before + 20

    begun = time.monotonic()
    try:
        while time.monotonic() < begun + seconds or not has_seen_enough():
            assert time.monotonic() < begun + TIMEOUT_S, "few messages, or nobody had to register anew"
            if chance.random() < 0.4:
                many_notices_without_notification(observer)
            waits = [(name, chance.random() * 0.006) for name in producers if chance.random() < 0.6]
            made = [database.start(partial(stress.produce, name, wait)) for name, wait in waits]
            stress.await_all({future.result(timeout=TIMEOUT_S) for future in made})
    finally:
        stress.is_over = True
        told = value(observer, "SELECT notify_channel FROM queue_get()")
        observer.execute("SELECT pg_notify(%s, 'over')", (told,))
    for future in running:
        future.result(timeout=TIMEOUT_S)
