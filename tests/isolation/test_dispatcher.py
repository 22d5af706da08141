"""Attacks on the dispatcher: each of them succeeded against a prototype or a first draft."""

import random
import threading
import time
from collections import Counter
from functools import partial

import psycopg
import pytest

from tests import invariants
from tests.isolation.pausing import install, is_installed, paused
from tests.isolation.shared_database import (
    LEASED,
    SharedDatabase,
    commit_later_transaction,
    dispatch,
    end,
    fail_on_lock_wait,
    take,
    unsettled,
    until,
    value,
)

HOUR = 3_600_000
ENDINGS = pytest.mark.parametrize("ending", ["commit", "rollback"])


def make(conn: psycopg.Connection, channels: list[str]) -> list[int]:
    rows = conn.execute(
        "SELECT id FROM message_create_many(%s, %s)", (channels, [b"work"] * len(channels))
    ).fetchall()
    return [message_id for (message_id,) in rows]


def complete(conn: psycopg.Connection, deliveries: list[invariants.Delivery]) -> None:
    if deliveries:
        ids, tokens = [d.id for d in deliveries], [d.token for d in deliveries]
        results = conn.execute("SELECT result FROM message_complete_many(%s, %s)", (ids, tokens)).fetchall()
        assert set(results) == {("completed",)}, results


def order(deliveries: list[invariants.Delivery]) -> list[int]:
    return [delivery.id for delivery in deliveries]


def drain(conn: psycopg.Connection, count: int) -> list[int]:
    """Deliver and complete this many messages, each of them once, and find no more."""
    served: list[int] = []

    def is_done() -> bool:
        dispatch(conn)
        deliveries = take(conn, 1_000)
        served.extend(delivery.id for delivery in deliveries)
        complete(conn, deliveries)
        return not deliveries and len(served) >= count and unsettled(conn) == 0

    until(is_done, f"{count} messages: {len(served)} were served", timeout_s=20)
    assert len(served) == len(set(served)) == count
    invariants.check(conn)
    return served


# Nothing lost, nothing twice.


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_a_transaction_that_creates_before_and_after_it_dispatches(
    database: SharedDatabase, is_overtaken: bool
) -> None:
    """All its notices have the same transaction id; each is read once, whether it was written before or
    after the dispatch.
    """
    observer, one = database.session("observer"), database.session("one")
    one.execute("BEGIN")
    made = make(one, ["a"])
    if is_overtaken:
        commit_later_transaction(observer)
    value(one, "SELECT dispatch()")
    made += make(one, ["a", "b"])
    value(one, "SELECT dispatch()")
    made += make(one, ["b"])
    end(one, "commit")
    assert sorted(drain(observer, 4)) == sorted(made)


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_every_call_on_a_message_in_one_transaction(database: SharedDatabase, is_overtaken: bool) -> None:
    """Created, dispatched, dequeued, retried, and all of it again: after the commit the message exists
    once.
    """
    observer, one = database.session("observer"), database.session("one")
    one.execute("BEGIN")
    made = make(one, ["a"] * 3)
    for _ in range(3):
        if is_overtaken:
            commit_later_transaction(observer)
        value(one, "SELECT dispatch()")
        deliveries = take(one, 2)
        assert len(deliveries) == 2 or not is_overtaken  # its own notices may be above its snapshot
        for delivery in deliveries:
            assert value(one, "SELECT message_retry(%s, %s)", delivery.id, delivery.token) == "retried"
    end(one, "commit")
    assert sorted(drain(observer, 3)) == made


def test_two_retries_in_one_transaction(database: SharedDatabase) -> None:
    """The ids of the two overlap, so messages that come back must be listed one by one."""
    observer, one = database.session("observer"), database.session("one")
    made = make(observer, ["a"] * 4)
    dispatch(observer)
    deliveries = {delivery.id: delivery for delivery in take(observer, 4)}
    one.execute("BEGIN")
    for ids in ((made[0], made[3]), (made[1], made[2])):
        tokens = [deliveries[message_id].token for message_id in ids]
        one.execute("SELECT message_retry_many(%s, %s)", (list(ids), tokens))
    end(one, "commit")
    dispatch(observer)
    assert value(observer, "SELECT COUNT(*) FROM ready") == 4
    drain(observer, 4)


@pytest.mark.parametrize("call", ["complete", "retry", "extend"])
def test_a_token_from_before_a_message_died_is_refused(database: SharedDatabase, call: str) -> None:
    """A dead letter is retried under the same id: the old token is refused while it waits and while it is
    leased again.
    """
    observer = database.session("observer")
    (message_id, other) = make(observer, ["a", "a"])
    observer.execute("UPDATE message SET max_attempts = 1 WHERE id = %s", (message_id,))
    dispatch(observer)
    old = take(observer, 2)[0].token
    query = f"SELECT message_{call}(%s, %s{', 60000' if call == 'extend' else ''})::TEXT"

    def is_refused() -> bool:
        return "lost" in value(observer, query, message_id, old)

    assert value(observer, "SELECT message_retry(%s, %s, p_error => 'bad')", message_id, old) == "dead"
    assert is_refused()
    assert value(observer, "SELECT result FROM dead_retry(%s)", [message_id]) == "retried"
    assert is_refused()
    dispatch(observer)
    assert is_refused()
    (again,) = take(observer, 1)
    assert again.id == message_id
    assert is_refused()
    complete(observer, [again])
    assert value(observer, "SELECT message_complete(%s, %s)", other, old) == "completed"
    invariants.check(observer)


@pytest.mark.parametrize(
    "rewrite", ["VACUUM FULL message", "VACUUM message", "CLUSTER message USING message_pkey"]
)
def test_messages_that_move_in_their_table(database: SharedDatabase, rewrite: str) -> None:
    """Rows move between create, dispatch, dequeue and complete."""
    observer = database.session("observer")
    made = make(observer, ["a"] * 200)
    dispatch(observer)
    first = take(observer, 50)
    complete(observer, first[::2])
    observer.execute(rewrite)
    made += make(observer, ["b"] * 50)
    observer.execute(rewrite)
    complete(observer, first[1::2])
    dispatch(observer)
    second = take(observer, 50)
    observer.execute(rewrite)
    complete(observer, second)
    done = [delivery.id for delivery in first + second]
    assert sorted(drain(observer, 150) + done) == made


@pytest.mark.cases(3)
@pytest.mark.parametrize("call", ["extend", "complete", "retry"])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_part_of_a_lease_that_is_locked_when_it_runs_out(
    database: SharedDatabase, part: int, call: str
) -> None:
    """A dequeue of 250 messages makes three lease rows. One is locked by a transaction that rolls back:
    nothing of it is lost.
    """
    observer, one = database.session("observer"), database.session("one")
    make(observer, ["a"] * 250)
    observer.execute("UPDATE message SET max_attempts = 1000")
    for _ in range(20):  # at first, ready has fewer entries
        dispatch(observer)
        leases = take(observer, 250, lease_ms=500)
        if len(leases) == 250:
            break
        ids, tokens = [lease.id for lease in leases], [lease.token for lease in leases]
        observer.execute("SELECT message_retry_many(%s, %s)", (ids, tokens))
    assert len(leases) == 250
    parts = observer.execute(
        "SELECT (stubs[1]).id, last_id FROM lease WHERE token = %s ORDER BY 2", (leases[0].token,)
    )
    low, high = parts.fetchall()[part]
    one.execute("BEGIN")
    ids = list(range(low, high + 1)) if call == "complete" else [high]
    query = f"SELECT message_{call}_many(%s, %s{', 60000' if call == 'extend' else ''})"
    one.execute(query, (ids, [leases[0].token]))
    time.sleep(0.6)
    dispatch(observer)
    end(one, "rollback")
    left = int(value(observer, "SELECT COUNT(*) FROM message"))
    drain(observer, left)


def test_a_message_is_cancelled_or_delivered_never_both(database: SharedDatabase) -> None:  # noqa: C901
    """Cancels and reschedules, some left open for a moment, against fast consumers."""
    observer = database.session("observer")
    stop, lock = threading.Event(), threading.Lock()
    delivered: Counter[int] = Counter()
    gone: set[int] = set()
    marked: set[int] = set()
    made: list[int] = []

    def produce(conn: psycopg.Connection) -> None:
        while not stop.is_set():
            made.extend(make(conn, [random.choice("abc") for _ in range(5)]))
            time.sleep(0.004)

    def consume(conn: psycopg.Connection) -> None:
        while not stop.is_set():
            conn.execute("SELECT dispatch()")
            deliveries = take(conn, 3)
            time.sleep(0.001)
            for delivery in deliveries:
                result = value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token)
                assert result in {"completed", "cancelled"}, result
                with lock:
                    delivered[delivery.id] += 1

    def change_minds(conn: psycopg.Connection, seed: int) -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            if len(made) < 15:
                continue
            message_id = chance.choice(made[-12:])
            conn.execute("BEGIN")
            if chance.random() < 0.6:
                result = value(conn, "SELECT message_cancel(%s)", message_id)
            else:
                result = value(conn, "SELECT message_reschedule(%s)", message_id)
            time.sleep(chance.choice([0, 0, 0.003, 0.02]))
            ending = chance.choice(["commit", "commit", "commit", "rollback"])
            end(conn, ending)
            if ending == "commit":
                with lock:
                    gone.update({message_id} if result == "cancelled" else ())
                    marked.update({message_id} if result == "marked" else ())

    works = [partial(produce, database.session("producer"))]
    works += [partial(consume, database.session(f"consumer {number}")) for number in range(2)]
    works += [partial(change_minds, database.session(f"people {seed}"), seed) for seed in range(3)]
    running = [database.start(work) for work in works]
    until(lambda: len(gone) > 100 and len(delivered) > 100, "messages to be cancelled and delivered", 20)
    stop.set()
    for future in running:
        future.result(timeout=20)
    assert not gone & set(delivered), "cancelled, and yet delivered"
    assert max(delivered.values()) == 1, "delivered twice"
    left = set(made) - gone - set(delivered)
    assert {i for (i,) in observer.execute("SELECT id FROM message")} == left
    assert set(drain(observer, len(left))) == left


@pytest.mark.parametrize("which", ["head", "tail"])
def test_a_message_that_is_rescheduled_again_and_again(database: SharedDatabase, which: str) -> None:
    """To the time that it already has, at each step of a dispatch that places it."""
    observer, two = database.session("observer"), database.session("two")
    at = int(value(observer, "SELECT clock_ms()")) + (400 if which == "tail" else -400)
    made = make(observer, ["a", "a"])
    for stop in ("dispatch has read", "dispatch has its entries", "before update tick", "after update tick"):
        assert value(two, "SELECT message_reschedule(%s, %s)", made[0], at) == "rescheduled"
        with paused(database, stop, lambda one: value(one, "SELECT dispatch()")):
            assert value(two, "SELECT message_reschedule(%s, %s)", made[0], at) == "rescheduled"
        dispatch(observer)
    assert value(observer, "SELECT waiting FROM queue_stats()") == 2
    drain(observer, 2)
    assert value(observer, "SELECT waiting FROM queue_stats()") == 0


# No session stops the others.


@ENDINGS
def test_a_cancel_left_open_keeps_nobody_busy(database: SharedDatabase, ending: str) -> None:
    """The message that it has locked is the last of a line: for a second there is nothing to do."""
    observer, one = database.session("observer"), database.session("one")
    made = make(observer, ["a"] * 300)
    dispatch(observer)
    one.execute("BEGIN")
    assert value(one, "SELECT message_cancel(%s)", made[250]) == "cancelled"
    served: list[invariants.Delivery] = []
    while len(served) < 299:
        assert value(observer, "SELECT dispatch()") is not None
        served += take(observer, 100)
    complete(observer, served)
    assert dispatch(observer) < 20
    end(one, ending)
    make(observer, ["b"] * 50 + ["a"] * 50)
    time.sleep(1.1)  # looked at again within a second
    dispatch(observer)
    first = Counter(delivery.channel for delivery in take(observer, 20))
    assert 8 <= first["a"] <= 12, "nothing was served of it meanwhile, and nothing is held against it"
    observer.execute(f"SELECT message_complete(id, token) FROM ({LEASED}) l")
    drain(observer, 80 + (ending == "rollback"))


def test_a_large_cancel_left_open_stops_no_other_channel(database: SharedDatabase) -> None:
    """More messages at the head of a line are locked than one refill moves."""
    observer, one = database.session("observer"), database.session("one")
    make(observer, ["a"] * 500 + ["b"] * 500)
    dispatch(observer)
    one.execute("BEGIN")
    head = "SELECT id FROM line WHERE channel = 'a' ORDER BY rank, at, id LIMIT 300"
    one.execute(f"SELECT message_cancel_many(ARRAY({head}))")
    served: Counter[str] = Counter()
    for _ in range(60):
        dispatch(observer)
        deliveries = take(observer, 10)
        served.update(delivery.channel for delivery in deliveries)
        complete(observer, deliveries)
    assert sum(served.values()) == 600, "every call gets what it asks for"
    assert served["a"] >= 125, "what is cancelled takes its turn with it"
    end(one, "commit")
    drain(observer, 100)


def test_an_open_cancel_delays_its_own_messages_alone(database: SharedDatabase) -> None:
    """Its messages pass through ready once, and are then looked at by an alarm."""
    observer, one = database.session("observer"), database.session("one")
    ids = make(observer, ["a"] * 400 + ["b"] * 100)
    one.execute("BEGIN")
    one.execute("SELECT message_cancel_many(%s)", (ids[:300],))
    served: Counter[str] = Counter()
    calls = 0
    while sum(served.values()) < 200:
        calls += 1
        assert calls <= 250, served
        dispatch(observer)
        deliveries = take(observer, 1)
        served.update(delivery.channel for delivery in deliveries)
        complete(observer, deliveries)
    assert served == {"a": 100, "b": 100}
    time.sleep(1.1)
    dispatch(observer)
    assert take(observer, 1) == [], "they do not go round"
    assert value(observer, "SELECT COUNT(*) FROM line") == 0
    end(one, "rollback")
    time.sleep(2)
    drain(observer, 300)


def test_a_dequeue_that_finds_a_void_entry_takes_the_next(database: SharedDatabase) -> None:
    observer, one = database.session("observer"), database.session("one")
    observer.execute("SELECT channel_set('a', p_max_concurrency => 1)")
    made = make(observer, ["a"] * 3)
    dispatch(observer)
    complete(observer, take(observer, 1))
    one.execute("BEGIN")
    one.execute("SELECT dispatch()")
    assert value(observer, "SELECT message_cancel(%s)", made[1]) == "cancelled"
    end(one, "commit")
    dispatch(observer)
    assert [delivery.id for delivery in take(observer, 1)] == made[2:]
    invariants.check(observer)


def test_many_cancelled_messages_are_taken_out_of_their_line_in_pieces(database: SharedDatabase) -> None:
    observer = database.session("observer")
    made = make(observer, ["a"] * 20_000)
    dispatch(observer)
    observer.execute("SELECT message_cancel_many(%s)", (made[:10_000],))
    observer.execute("SELECT message_cancel_many(%s)", (made[10_000:],))
    calls = dispatch(observer)
    assert calls >= 3, "5,000 or so each"
    assert value(observer, "SELECT COUNT(*) FROM line") == 0
    invariants.check(observer)


def test_what_is_cancelled_under_a_dispatch_and_taken_back_is_not_counted(database: SharedDatabase) -> None:
    observer, one = database.session("observer"), database.session("one")
    observer.execute("SELECT channel_set('a', p_max_concurrency => 1)")
    made = make(observer, ["a"] * 3)
    dispatch(observer)
    complete(observer, take(observer, 1))
    one.execute("BEGIN")
    one.execute("SELECT dispatch()")
    observer.execute("SELECT channel_set('a', p_paused => TRUE)")
    assert value(observer, "SELECT message_cancel(%s)", made[1]) == "cancelled"
    end(one, "commit")
    dispatch(observer)
    assert value(observer, "SELECT due FROM channel_stats('a')") == 1
    invariants.check(observer)


def test_a_policy_that_changes_beside_an_open_dequeue_stops_nobody(database: SharedDatabase) -> None:
    observer, one = database.session("observer"), database.session("one")
    make(observer, ["a"] * 50 + ["b"] * 2_000)
    dispatch(observer)
    one.execute("BEGIN")
    assert len(take(one, 2)) == 2
    observer.execute("SELECT channel_set('a', p_max_concurrency => 10)")
    served: Counter[str] = Counter()
    for _ in range(60):
        dispatch(observer)
        deliveries = take(observer, 50)
        served.update(delivery.channel for delivery in deliveries)
        complete(observer, deliveries)
    assert sum(served.values()) >= 2_040, served
    end(one, "rollback")
    drain(observer, 2_050 - sum(served.values()))


def test_a_locked_message_that_a_slow_dequeue_met(database: SharedDatabase) -> None:
    """The time at which it is to be placed has passed when the dequeue commits."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    made = make(observer, ["a", "b"])
    dispatch(observer)
    one.execute("BEGIN")
    one.execute("SELECT FROM message WHERE id = %s FOR UPDATE", (made[0],))
    two.execute("BEGIN")
    assert [delivery.id for delivery in take(two, 2)] == made[1:]
    time.sleep(1.1)
    made += make(observer, ["c"])
    dispatch(observer)
    end(two, "commit")
    end(one, "commit")
    observer.execute(f"SELECT message_complete(id, token) FROM ({LEASED}) l")
    drain(observer, 2)


def test_a_rolled_back_message_comes_in_its_place(database: SharedDatabase) -> None:
    """Consumers skip it until it is placed behind the urgent message that came meanwhile."""
    observer, one = database.session("observer"), database.session("one")
    made = make(observer, ["a"] * 3)
    dispatch(observer)
    one.execute("BEGIN")
    assert len(take(one, 3)) == 3
    urgent = value(observer, "SELECT id FROM message_create('a', 'x', -5)")
    dispatch(observer)
    end(one, "rollback")
    first = [delivery.id for delivery in take(observer, 10)]
    assert first in ([urgent], []), "the others are not put back yet"
    dispatch(observer)
    assert first + [delivery.id for delivery in take(observer, 10)] == [urgent, *made]


def test_the_dispatcher_does_not_wait_for_maintenance(database: SharedDatabase) -> None:
    observer, one = database.session("observer"), database.session("one")
    make(observer, ["a"] * 500)
    dispatch(observer)
    make(observer, ["b"])
    dispatch(observer)
    assert value(observer, "SELECT COUNT(*) FROM recent_tag") > 0
    one.execute("BEGIN")
    one.execute("SELECT FROM recent_tag FOR UPDATE")
    with fail_on_lock_wait(observer):
        for _ in range(5):
            complete(observer, take(observer, 50))
            value(observer, "SELECT dispatch()")
        observer.execute("SELECT channel_set('b', p_weight => 2)")
        value(observer, "SELECT dispatch()")
    end(one, "commit")


def test_others_are_served_beside_a_dequeue_left_open(database: SharedDatabase) -> None:
    """Its entries do not count as supply, and do not hold back virtual time."""
    observer, one = database.session("observer"), database.session("one")
    make(observer, ["big"] * 3_000)
    dispatch(observer)
    one.execute("BEGIN")
    held = len(take(one, 100))
    served = 0
    for _ in range(20):
        dispatch(observer)
        served += len(take(observer, 10))
    assert (held, served) == (100, 200)
    time.sleep(1.1)  # longer than the floor stays below it
    for _ in range(20):
        dispatch(observer)
        served += len(take(observer, 10))
    assert served == 400
    end(one, "rollback")
    observer.execute(f"SELECT message_complete(id, token) FROM ({LEASED}) l")
    drain(observer, 2_600)


@ENDINGS
def test_an_urgent_message_of_a_channel_whose_other_one_is_locked(
    database: SharedDatabase, ending: str
) -> None:
    """The locked entry cannot be moved back to make room for it, so it starts a new line."""
    observer, one = database.session("observer"), database.session("one")
    made = make(observer, ["a"])
    dispatch(observer)
    one.execute("BEGIN")
    (held,) = take(one, 1)
    made.append(value(observer, "SELECT id FROM message_create('a', 'x', -5)"))
    value(observer, "SELECT dispatch()")
    invariants.audit(observer)
    end(one, ending)
    if ending == "commit":
        complete(observer, [held])
        made.remove(held.id)
    assert sorted(drain(observer, len(made))) == sorted(made)


@pytest.mark.parametrize("seconds", [0, 1.2], ids=["at once", "after a while"])
def test_a_dequeue_that_is_rolled_back_gives_all_of_it_back(database: SharedDatabase, seconds: float) -> None:
    observer, one = database.session("observer"), database.session("one")
    made = make(observer, ["big"] * 1_000)
    dispatch(observer)
    one.execute("BEGIN")
    assert len(take(one, 64)) == 64
    for _ in range(5):
        dispatch(observer)
        complete(observer, take(observer, 100))
    if seconds:
        time.sleep(seconds)
        dispatch(observer)
        complete(observer, take(observer, 100))
    left = int(value(observer, "SELECT COUNT(*) FROM message"))
    assert left < len(made) - 400
    end(one, "rollback")
    drain(observer, left)


@pytest.mark.parametrize("is_held", [False, True], ids=["none open", "a dequeue open"])
def test_a_tenant_that_sends_one_at_a_time_gets_no_more_than_its_share(
    database: SharedDatabase, is_held: bool
) -> None:
    """Beside ten channels with a backlog, and an open dequeue, which does not hold back virtual time."""
    observer, one = database.session("observer"), database.session("one")
    make(observer, [f"b{number % 10}" for number in range(2_000)])
    dispatch(observer)
    one.execute("BEGIN")
    if is_held:
        take(one, 1)
    served: Counter[str] = Counter()
    is_sent = False
    for _ in range(220):
        if not is_sent:
            make(observer, ["guest"])
            is_sent = True
        observer.execute("SELECT dispatch()")
        for delivery in take(observer, 1):
            served[delivery.channel] += 1
            is_sent = is_sent and delivery.channel != "guest"
    end(one, "rollback")
    assert sum(served.values()) == 220
    assert 8 <= served["guest"] <= 24, served  # a share is 20


def test_newcomers_do_not_starve_a_backlog(database: SharedDatabase) -> None:
    observer = database.session("observer")
    make(observer, ["big"] * 1_000)
    dispatch(observer)
    served: Counter[str] = Counter()
    for number in range(30):
        for delivery in take(observer, 64):
            served["big" if delivery.channel == "big" else "new"] += 1
        make(observer, [f"new {number} {k}" for k in range(64)])
        observer.execute("SELECT dispatch()")
    # Newcomers have one message each, and the large channel gets one per round.
    assert served["big"] >= 30, served


def test_a_newcomer_is_served_soon_however_full_ready_is(database: SharedDatabase) -> None:
    observer = database.session("observer")
    make(observer, ["big"] * 20_000)
    for _ in range(8):
        dispatch(observer)
        take(observer, 1_000)  # consumers ask for much, so ready has thousands of entries
    dispatch(observer)
    assert value(observer, "SELECT COUNT(*) FROM ready") >= 1_000
    for number in range(10):
        make(observer, [f"quiet {number}"])
        observer.execute("SELECT dispatch()")
        before = [delivery.channel for delivery in take(observer, 4)]
        assert f"quiet {number}" in before


def test_large_dequeues_are_soon_filled(database: SharedDatabase) -> None:
    """The ready list grows with demand: soon a dequeue of 1,000 gets more than the usual hundred."""
    observer = database.session("observer")
    make(observer, ["a"] * 5_000)
    sizes = []
    for _ in range(4):
        dispatch(observer)
        deliveries, again_at = invariants.dequeue(observer, 1_000, HOUR)
        assert len(deliveries) == 1_000 or again_at is not None
        sizes.append(len(deliveries))
    assert sizes[-1] == 1_000, sizes


LOCKS = {
    "message": "SELECT FROM message FOR UPDATE",
    "ready": "SELECT FROM ready FOR UPDATE",
    "scheduled": "SELECT FROM scheduled FOR UPDATE",
    "lease": "SELECT FROM lease FOR UPDATE",
    "policy": "SELECT FROM channel FOR UPDATE",
    "cancel": "SELECT message_cancel_many(ARRAY(SELECT id FROM message))",
    "reschedule": "SELECT message_reschedule(id) FROM message ORDER BY id",
    "channel_delete": "SELECT channel_delete('a', TRUE)",
    "channel_set": "SELECT channel_set('a', p_max_concurrency => 2)",
    "queue_set": "SELECT queue_set(p_max_concurrency => 2)",
}


@pytest.mark.cases(10)
@ENDINGS
@pytest.mark.parametrize("hold", LOCKS)
def test_the_dispatcher_never_waits(database: SharedDatabase, hold: str, ending: str) -> None:
    """It skips whatever is locked, and comes back to it."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    observer.execute("SELECT channel_set('limited', p_max_concurrency => 3, p_release_interval_us => 1000)")
    make(observer, ["a"] * 400 + ["limited"] * 20)
    dispatch(observer)
    take(observer, 20, lease_ms=1)
    for delay in (50, 100, HOUR):
        observer.execute("SELECT message_create('a', 'later', p_delay_ms => %s)", (delay,))
    dispatch(observer)
    one.execute("BEGIN")
    one.execute(LOCKS[hold])
    time.sleep(0.2)  # leases ran out, and scheduled messages are due
    with fail_on_lock_wait(two):
        for number in range(3):
            make(two, ["a", "limited", f"new {number}"])
            assert dispatch(two) < 50
            two.execute("SELECT message_dequeue(10, 1)")
            time.sleep(0.02)
        two.execute("SELECT channel_set('b', p_paused => TRUE)")
        dispatch(two)
    end(one, ending)
    observer.execute("SELECT queue_set(p_max_concurrency => 0)")
    observer.execute("SELECT channel_set(c, 0, 0) FROM unnest(ARRAY['a', 'limited']) c")
    observer.execute("UPDATE message SET max_attempts = 1000")
    until(lambda: dispatch(observer) > 0 and unsettled(observer) == 0, "what was held to be seen to")
    later = int(value(observer, "SELECT COUNT(*) FROM message WHERE dequeue_at > clock_ms()"))
    drain(observer, int(value(observer, "SELECT COUNT(*) FROM message")) - later)


def test_a_dispatch_commits_asynchronously(database: SharedDatabase) -> None:
    """Otherwise a missing synchronous standby would stop everyone. If a message ends in it, it commits
    durably.
    """
    observer, one = database.session("observer"), database.session("one")
    make(observer, ["a"])
    one.execute("BEGIN")
    one.execute("SELECT dispatch()")
    assert value(one, "SHOW synchronous_commit") == "off"
    end(one, "commit")
    assert value(one, "SHOW synchronous_commit") == "on"
    observer.execute("UPDATE message SET max_attempts = 1")
    take(observer, 1, lease_ms=1)
    time.sleep(0.01)
    one.execute("BEGIN")
    one.execute("SELECT dispatch()")
    assert value(one, "SELECT COUNT(*) FROM dead") == 1
    assert value(one, "SHOW synchronous_commit") == "on"
    end(one, "commit")


def test_a_large_producer_delays_nobody(database: SharedDatabase) -> None:
    """100,000 messages in ten calls: what others create meanwhile is placed by the next dispatch or two."""
    observer, one = database.session("observer"), database.session("one")
    for _ in range(10):
        make(observer, ["large"] * 10_000)
    worst = 0.0
    for number in range(10):
        name = f"small {number}"
        make(one, [name])
        calls = 0
        while not value(one, "SELECT COUNT(*) FROM ready WHERE channel = %s", name):
            start = time.monotonic()
            one.execute("SELECT dispatch()")
            worst = max(worst, time.monotonic() - start)
            calls += 1
            assert calls <= 2, "it waits for the large one"
        assert name in {delivery.channel for delivery in take(one, 20)}
    assert worst < 1.0, "a dispatch is a bounded piece of work"


POLICIES = {
    "paused": ("SELECT channel_set('a', p_paused => TRUE)", 0),
    "a limit": ("SELECT channel_set('a', p_max_concurrency => 1)", 1),
    "an interval": ("SELECT channel_set('a', p_release_interval_us => 60000000)", 1),
    "the queue's limit": ("SELECT queue_set(p_max_concurrency => 1)", 1),
    "the queue paused": ("SELECT queue_set(p_paused => TRUE)", 0),
}


@pytest.mark.cases(8)
@pytest.mark.parametrize("is_dispatched", [False, True], ids=["at once", "after a dispatch"])
@pytest.mark.parametrize("seconds", [0, 1.2], ids=["short", "long"])
@pytest.mark.parametrize("policy", POLICIES)
def test_rolled_back_messages_obey_a_policy_that_changed_meanwhile(
    database: SharedDatabase, policy: str, seconds: float, is_dispatched: bool
) -> None:
    observer, one = database.session("observer"), database.session("one")
    call, allowed = POLICIES[policy]
    make(observer, ["a"] * 3)
    dispatch(observer)
    one.execute("BEGIN")
    assert len(take(one, 3)) == 3
    observer.execute(call)
    dispatch(observer)
    if seconds:
        time.sleep(seconds)
        dispatch(observer)
    assert take(observer) == []
    end(one, "rollback")
    if is_dispatched:
        dispatch(observer)
    assert len(take(observer)) <= allowed
    dispatch(observer)
    assert len(take(observer)) <= allowed
    assert len(observer.execute(LEASED).fetchall()) <= allowed
    observer.execute("SELECT queue_set(p_max_concurrency => 0, p_paused => FALSE)")
    observer.execute("SELECT channel_set('a', 0, 0, 1, FALSE)")
    observer.execute(f"SELECT message_complete(id, token) FROM ({LEASED}) l")
    drain(observer, int(value(observer, "SELECT COUNT(*) FROM message")))


# After a restore.


@pytest.mark.parametrize("seconds", [1.5, pytest.param(3, marks=pytest.mark.long)])
def test_a_restore_beside_consumers_that_work(database: SharedDatabase, seconds: float) -> None:
    """The tick comes from another cluster: a rescan runs while others create, dequeue, finish and retry."""
    observer = database.session("observer")
    stop, lock = threading.Event(), threading.Lock()
    delivered: Counter[int] = Counter()
    made: list[int] = []
    ids = make(observer, [f"c{number % 20}" for number in range(3_000)])
    observer.execute("SELECT message_create('c1', 'later', p_delay_ms => 500) FROM generate_series(1, 50)")
    dispatch(observer)
    running_before = take(observer, 100)
    ids += make(observer, ["unread"] * 500)
    observer.execute("UPDATE tick SET system_id = 1, started_at = 'epoch', seen_xid = '9999999999'")

    def produce(conn: psycopg.Connection) -> None:
        while not stop.is_set():
            made.extend(make(conn, [random.choice("abc") for _ in range(5)]))
            time.sleep(0.01)

    def consume(conn: psycopg.Connection, seed: int) -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            conn.execute("SELECT dispatch(%s)", (chance.choice([50, 1_000]),))
            for delivery in take(conn, 20):
                if chance.random() < 0.2:
                    assert value(conn, "SELECT message_retry(%s, %s)", *delivery[0:7:6]) == "retried"
                else:
                    assert value(conn, "SELECT message_complete(%s, %s)", *delivery[0:7:6]) == "completed"
                    with lock:
                        delivered[delivery.id] += 1

    works = [partial(produce, database.session("producer"))]
    works += [partial(consume, database.session(f"consumer {seed}"), seed) for seed in range(3)]
    running = [database.start(work) for work in works]
    time.sleep(seconds)
    stop.set()
    for future in running:
        future.result(timeout=20)
    assert max(delivered.values()) == 1
    complete(observer, running_before)
    everything = len(ids) + 50 + len(made)
    drain(observer, everything - len(delivered) - len(running_before))
    assert value(observer, "SELECT waiting FROM queue_stats()") == 0


def test_notices_of_another_cluster_are_never_read(database: SharedDatabase) -> None:
    """The dump comes from a cluster with higher transaction ids, which this cluster will use later."""
    observer = database.session("observer")
    make(observer, ["a"] * 3)
    dispatch(observer)
    made = make(observer, ["b"] * 2)
    for table in ("message", "notice"):
        observer.execute(f"UPDATE {table} SET xid = (xid::TEXT::BIGINT + 300)::TEXT::XID8")
    observer.execute(
        "UPDATE tick SET system_id = 1, started_at = 'epoch',"
        " seen_xid = (seen_xid::TEXT::BIGINT + 300)::TEXT::XID8"
    )
    dispatch(observer)
    running = take(observer)
    assert {delivery.id for delivery in running} >= set(made)
    assert len(running) == 5
    for _ in range(400):
        commit_later_transaction(observer)
    dispatch(observer)
    assert take(observer) == [], "they run already"
    complete(observer, running)
    drain(observer, 0)
    assert value(observer, "SELECT waiting FROM queue_stats()") == 0


def test_a_rollback_while_an_urgent_message_is_placed(database: SharedDatabase) -> None:
    """What a rolled-back dequeue returns has tags of the time when it was taken. Urgent messages that came
    meanwhile have later tags, and come first.
    """
    one, two = database.session("one"), database.session("two")
    if not is_installed(one):
        install(one)  # now: it would wait for the transaction that stays open
    ordinary = make(one, ["a"] * 6)
    dispatch(one)
    two.execute("BEGIN")
    assert order(take(two, 2)) == ordinary[:2]
    urgent = [urgent_message(one) for _ in range(2)]
    dispatch(one)
    urgent.append(urgent_message(one))
    with paused(database, "dispatch has measured a lane", dispatch):
        two.execute("ROLLBACK")
    assert order(take(one, 3)) == urgent
    dispatch(one)
    assert order(take(one, 10)) == ordinary
    invariants.check(one)


def urgent_message(conn: psycopg.Connection) -> int:
    found: int = value(conn, "SELECT id FROM message_create('a', '', p_priority => 5)")
    return found
