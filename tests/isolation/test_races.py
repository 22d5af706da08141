"""One session is stopped inside a function, between two of its statements; another one runs and commits;
then the first goes on and must handle what it finds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import pytest

from tests import invariants
from tests.isolation.busy_queue import (
    OPERATIONS,
    BusyQueue,
    Lease,
    Outcome,
    build,
    create,
    do_complete,
    do_dequeue,
    do_dispatch,
    do_extend,
    do_retry,
    see,
)
from tests.isolation.pausing import paused
from tests.isolation.shared_database import (
    Ledger,
    SharedDatabase,
    check_and_deliver_all,
    check_limits,
    commit_later_transaction,
    dispatch,
    end,
    fail_on_lock_wait,
    leased_by_channel,
    leased_ids,
    take,
    until,
    value,
)

Meanwhile = Callable[[psycopg.Connection, BusyQueue], None]

HOLDERS = {"complete": "completed", "extend": "extended", "retry": "retried"}


def finish(busy: BusyQueue, outcome: Outcome) -> None:
    outcome.commit(busy.ledger)


# What may happen while the other is stopped. Each must go on at once.


def urgent_create(conn: psycopg.Connection, busy: BusyQueue) -> None:
    create(conn, busy.ledger, busy.first, "urgent", -5)


def later_create(conn: psycopg.Connection, busy: BusyQueue) -> None:
    create(conn, busy.ledger, busy.first, "later", 15)


def urgent_create_and_dispatch(conn: psycopg.Connection, busy: BusyQueue) -> None:
    urgent_create(conn, busy)
    dispatch_once(conn, busy)


def producer(conn: psycopg.Connection, busy: BusyQueue) -> None:
    finish(busy, OPERATIONS["producer"](conn, busy, None))


def dispatch_once(conn: psycopg.Connection, busy: BusyQueue) -> None:
    do_dispatch(conn, busy, None)


def sweep(conn: psycopg.Connection, busy: BusyQueue) -> None:
    assert do_dispatch(conn, busy, None).result is False
    assert busy.expired
    busy.ledger.sweep()


def complete(conn: psycopg.Connection, busy: BusyQueue) -> None:
    finish(busy, do_complete(conn, busy, busy.leases[busy.first][0]))


def extend(conn: psycopg.Connection, busy: BusyQueue) -> None:
    finish(busy, do_extend(conn, busy, busy.leases[busy.first][0]))


def retry(conn: psycopg.Connection, busy: BusyQueue) -> None:
    lease = busy.leases[busy.first][1]
    assert value(conn, "SELECT message_retry(%s, %s, p_dequeue_at => -9)", *lease) == "retried"
    busy.ledger.end_lease(lease.id)


def retry_and_dispatch(conn: psycopg.Connection, busy: BusyQueue) -> None:
    retry(conn, busy)
    dispatch_once(conn, busy)


def dequeue(conn: psycopg.Connection, busy: BusyQueue) -> None:
    finish(busy, do_dequeue(conn, busy, 100))


def dequeue_and_complete(conn: psycopg.Connection, busy: BusyQueue) -> None:
    for delivery in take(conn):
        busy.ledger.lease(delivery)
        finish(busy, do_complete(conn, busy, Lease(delivery.id, delivery.token)))


def limit(conn: psycopg.Connection, busy: BusyQueue) -> None:
    finish(busy, OPERATIONS["channel_set"](conn, busy, (busy.first, {"max_concurrency": 4})))


def cancel_first(conn: psycopg.Connection, busy: BusyQueue) -> None:
    cancel(conn, busy, "ORDER BY tag, id")


def cancel_last(conn: psycopg.Connection, busy: BusyQueue) -> None:
    cancel(conn, busy, "ORDER BY tag DESC, id DESC")


def cancel(conn: psycopg.Connection, busy: BusyQueue, order: str) -> None:
    """Cancel a message in ready that is not locked."""
    row = conn.execute(
        f"SELECT id FROM ready WHERE channel = %s {order} LIMIT 1 FOR UPDATE SKIP LOCKED", (busy.first,)
    ).fetchone()
    if row is not None:
        assert value(conn, "SELECT message_cancel(%s)", row[0]) == "cancelled"
        del busy.ledger.contents[row[0]]


def unread(conn: psycopg.Connection, busy: BusyQueue) -> int:
    """The message that is not dispatched yet, unless a dispatch reads it at this moment."""
    return int(value(conn, "SELECT MAX(id) FROM message WHERE channel = %s AND dequeue_at = 12", busy.first))


def cancel_unread(conn: psycopg.Connection, busy: BusyQueue) -> None:
    message_id = unread(conn, busy)
    assert value(conn, "SELECT message_cancel(%s)", message_id) == "cancelled"
    del busy.ledger.contents[message_id]


def reschedule_unread(conn: psycopg.Connection, busy: BusyQueue) -> None:
    """To the time that it already has: the new entry differs from the old one only by its generation."""
    assert value(conn, "SELECT message_reschedule(%s, 12)", unread(conn, busy)) == "rescheduled"


def reschedule_unread_for_later(conn: psycopg.Connection, busy: BusyQueue) -> None:
    message_id = unread(conn, busy)
    assert value(conn, "SELECT message_reschedule(%s, clock_ms() + 300)", message_id) == "rescheduled"


def maintain(conn: psycopg.Connection, _busy: BusyQueue) -> None:
    conn.execute("SELECT maintain()")


def names(*meanwhile: Meanwhile) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("meanwhile", meanwhile, ids=lambda function: function.__name__)


def go_on(database: SharedDatabase, busy: BusyQueue, meanwhile: Meanwhile) -> None:
    stranger = database.session("stranger")
    with fail_on_lock_wait(stranger):
        meanwhile(stranger, busy)
    check_limits(database.session("observer"))


# A dequeue, stopped.


class Stop(NamedTuple):
    """Where a dequeue of this many messages is stopped."""

    limit: int
    at: str


BEFORE_THE_LOCKS = ("dequeue has the tick", "before delete ready")
DEQUEUE_STOPS = [
    Stop(limit, at)
    for limit in (1, 2)
    for at in (
        *BEFORE_THE_LOCKS,
        "dequeue has its entries",
        "dequeue has its messages",
        "before insert lease",
        "after insert notice",
    )
]


@pytest.mark.cases(12)
@names(
    urgent_create,
    later_create,
    urgent_create_and_dispatch,
    producer,
    dispatch_once,
    sweep,
    complete,
    extend,
    retry,
    retry_and_dispatch,
    dequeue,
    dequeue_and_complete,
    limit,
    cancel_first,
    cancel_last,
    cancel_unread,
    reschedule_unread,
    maintain,
)
@pytest.mark.parametrize(
    "stop",
    [stop if stop.limit > 1 else pytest.param(stop, marks=pytest.mark.long) for stop in DEQUEUE_STOPS],
)
def test_dequeue_stopped(database: SharedDatabase, stop: Stop, meanwhile: Meanwhile) -> None:
    observer = database.session("observer")
    busy = build(observer, expired=meanwhile is sweep)
    with paused(database, stop.at, lambda one: do_dequeue(one, busy, stop.limit)) as running:
        go_on(database, busy, meanwhile)
    taken = running.result()
    if stop.at not in BEFORE_THE_LOCKS:
        assert busy.first in taken.result
        assert len(taken.result) == stop.limit
    taken.commit(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("which", ["tag, id", "tag DESC, id DESC"], ids=["head", "tail"])
@pytest.mark.parametrize("call", ["message_cancel(%s)", "message_reschedule(%s, 12)"])
@pytest.mark.parametrize("wanted", [1, 2, 100])
def test_dequeue_skips_a_waiting_message_that_is_locked(
    database: SharedDatabase, wanted: int, call: str, which: str, ending: str
) -> None:
    """The locked message is skipped, not waited for, and not forgotten."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer)
    held = value(observer, f"SELECT id FROM ready WHERE channel = %s ORDER BY {which} LIMIT 1", busy.first)
    two.execute("BEGIN")
    result = value(two, f"SELECT {call}", held)
    assert result in {"cancelled", "rescheduled"}
    with fail_on_lock_wait(one):
        taken = do_dequeue(one, busy, wanted)
    assert len(taken.result) == min(wanted, 3)
    taken.commit(busy.ledger)
    assert held not in busy.ledger.leases
    end(two, ending)
    if ending == "commit" and result == "cancelled":
        del busy.ledger.contents[held]
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("call", ["message_cancel(%s)", "message_reschedule(%s, 12)"])
@pytest.mark.parametrize(
    "stop",
    ["dequeue has its entries", "dequeue has its messages", "before insert lease", "after insert notice"],
)
def test_a_message_that_a_stopped_dequeue_takes_is_cancelled_or_delivered_never_both(
    database: SharedDatabase, stop: str, call: str, ending: str
) -> None:
    """The cancel waits for the dequeue. A dequeue that has not read the message yet drops it and takes the
    next.
    """
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer)
    message_id = value(observer, "SELECT id FROM ready ORDER BY tag, id LIMIT 1")
    one.execute("BEGIN")
    with paused(database, stop, lambda one: do_dequeue(one, busy, 1)) as running:
        late = database.start(lambda: value(two, f"SELECT {call}", message_id))
        until(lambda: database.is_waiting(two, one), "the other to wait for the dequeue")
    taken = running.result()
    end(one, ending)
    is_delivered = ending == "commit" and stop != "dequeue has its entries"
    if call.startswith("message_cancel"):
        assert late.result(timeout=10) == ("marked" if is_delivered else "cancelled")
    else:
        assert late.result(timeout=10) == ("leased" if is_delivered else "rescheduled")
    assert taken.result, "it takes the next one instead"
    (taken.commit if ending == "commit" else taken.rollback)(busy.ledger)
    assert (message_id in busy.ledger.leases) == is_delivered
    if call.startswith("message_cancel"):
        token = busy.ledger.leases.pop(message_id, None)
        if token is not None:
            assert value(observer, "SELECT message_complete(%s, %s)", message_id, token) == "cancelled"
        del busy.ledger.contents[message_id]
    check_and_deliver_all(observer, busy.ledger)


def test_two_that_touch_a_batch_while_it_is_taken(database: SharedDatabase) -> None:
    """One locked a message before the dequeue read it, one begins right after: each message is delivered
    once.
    """
    observer, one = database.session("observer"), database.session("one")
    busy = build(observer)
    ids = [
        i
        for (i,) in observer.execute(
            "SELECT id FROM ready WHERE channel <> 'third' ORDER BY tag, id"
        ).fetchall()
    ]
    observer.execute(
        "BEGIN; SELECT FROM message WHERE id = %s FOR UPDATE; ROLLBACK".replace("%s", str(ids[0]))
    )
    two = database.session("two")
    with paused(
        database, "dequeue has its messages", lambda one: invariants.dequeue(one, 100, 3_600_000)[0]
    ) as running:
        late = database.start(lambda: value(two, "SELECT message_cancel(%s)", ids[1]))
        until(lambda: database.is_waiting(two, one), "the cancel to wait for the dequeue")
    taken: list[invariants.Delivery] = running.result()
    assert sorted(delivery.id for delivery in taken) == sorted({delivery.id for delivery in taken})
    assert {ids[0], ids[1]} <= {delivery.id for delivery in taken}
    assert late.result(timeout=10) == "marked"
    for delivery in taken:
        busy.ledger.lease(delivery)
    assert value(observer, "SELECT message_complete(%s, %s)", ids[1], taken[0].token) == "cancelled"
    busy.ledger.finish(ids[1])
    busy.ledger.void.pop()
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("stop", DEQUEUE_STOPS)
def test_two_dequeues_for_one_slot(database: SharedDatabase, stop: Stop) -> None:
    observer = database.session("observer")
    busy = build(observer)
    running_before = leased_by_channel(observer)[busy.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (busy.first, running_before + 1))
    share_one(database, busy, stop)
    check_limits(observer)
    dispatch(observer)
    assert busy.first not in {delivery.channel for delivery in lease_all(observer, busy)}
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("stop", DEQUEUE_STOPS)
def test_two_dequeues_for_one_release(database: SharedDatabase, stop: Stop) -> None:
    observer = database.session("observer")
    busy = build(observer)
    observer.execute("SELECT channel_set(%s, p_release_interval_us => 60000000)", (busy.first,))
    dispatch(observer)
    # The last release was long ago.
    observer.execute(
        "DELETE FROM served_by; DELETE FROM tally; UPDATE slots SET released_at = NULL, full_at_us = NULL"
    )
    observer.execute("UPDATE lease SET dequeued_at = 0")
    observer.execute("SELECT channel_set(%s, p_release_interval_us => 60000000)", (busy.first,))
    share_one(database, busy, stop)
    dispatch(observer)
    assert busy.first not in {delivery.channel for delivery in lease_all(observer, busy)}
    observer.execute("SELECT channel_set(%s, p_release_interval_us => 0)", (busy.first,))
    check_and_deliver_all(observer, busy.ledger)


def share_one(database: SharedDatabase, busy: BusyQueue, stop: Stop) -> None:
    """The first channel may release one more message: one of the two dequeues gets it."""
    observer, two = database.session("observer"), database.session("two")
    dispatch(observer)
    with (
        paused(database, stop.at, lambda one: do_dequeue(one, busy, stop.limit)) as running,
        fail_on_lock_wait(two),
    ):
        met = do_dequeue(two, busy, 100)
        met.commit(busy.ledger)
    taken = running.result()
    taken.commit(busy.ledger)
    assert (busy.first in met.result) + (busy.first in taken.result) == 1
    assert (busy.first in met.result) == (stop.at in BEFORE_THE_LOCKS)


def lease_all(conn: psycopg.Connection, busy: BusyQueue) -> list[invariants.Delivery]:
    deliveries = take(conn)
    for delivery in deliveries:
        busy.ledger.lease(delivery)
    return deliveries


@pytest.mark.parametrize("stop", ["dispatch has read", "dispatch has the policies", "before update tick"])
def test_a_slot_freed_while_a_dispatch_finds_none(database: SharedDatabase, stop: str) -> None:
    """The notice of the free slot comes after the look for slots and before the line is closed: it must not
    be missed.
    """
    observer = database.session("observer")
    busy = build(observer)
    full = leased_by_channel(observer)[busy.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (busy.first, full))
    with paused(database, stop, lambda one: do_dispatch(one, busy, None)) as running:
        go_on(database, busy, complete)
    running.result()

    def is_used() -> bool:
        dispatch(observer)
        return busy.first in {delivery.channel for delivery in lease_all(observer, busy)}

    until(is_used, "the freed slot to be used")
    check_and_deliver_all(observer, busy.ledger)


# A dispatch, stopped.


@pytest.mark.cases(12)
@names(
    urgent_create,
    later_create,
    urgent_create_and_dispatch,
    producer,
    dispatch_once,
    dequeue,
    dequeue_and_complete,
    complete,
    extend,
    retry,
    retry_and_dispatch,
    limit,
    cancel_first,
    cancel_unread,
    reschedule_unread,
    reschedule_unread_for_later,
    maintain,
)
@pytest.mark.parametrize(
    "stop",
    [
        "dispatch has the tick",
        "dispatch has looked",
        "dispatch has the lock",
        "dispatch has read",
        "dispatch has its entries",
        "dispatch has the policies",
        "before insert ready",
        "before update tick",
        "after update tick",
    ],
)
def test_dispatch_stopped(database: SharedDatabase, stop: str, meanwhile: Meanwhile) -> None:
    observer = database.session("observer")
    busy = build(observer)
    with paused(database, stop, lambda one: do_dispatch(one, busy, None)) as running:
        go_on(database, busy, meanwhile)
    assert running.result().result in {True, False}
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize(
    "stop", ["dispatch has the tick", "dispatch has looked", "dispatch has the lock", "after update tick"]
)
def test_two_dispatches(database: SharedDatabase, stop: str) -> None:
    """One of them dispatches. The other finds nothing left, or the lock taken: then there may be more to
    do.
    """
    observer, two = database.session("observer"), database.session("two")
    busy = build(observer)
    before = value(observer, "SELECT MAX(id) FROM tick")
    with paused(database, stop, lambda one: do_dispatch(one, busy, None)) as running, fail_on_lock_wait(two):
        met = do_dispatch(two, busy, None)
    is_locked = stop in {"dispatch has the lock", "after update tick"}
    assert (running.result().result, met.result) == (False, is_locked)
    ticks = value(observer, "SELECT COUNT(*) FROM tick WHERE id > %s", before)
    assert ticks == 1
    check_and_deliver_all(observer, busy.ledger)


# A sweep, stopped.


@pytest.mark.parametrize("call", HOLDERS)
def test_sweep_stopped_before_it_locks_finds_the_holder_was_faster(
    database: SharedDatabase, call: str
) -> None:
    observer, two = database.session("observer"), database.session("two")
    busy = build(observer, expired=True)
    with paused(database, "dispatch has the lock", lambda one: do_dispatch(one, busy, None)) as running:
        with fail_on_lock_wait(two):
            met = OPERATIONS[call](two, busy, busy.expired[busy.first])
        assert met.result == HOLDERS[call]
        met.commit(busy.ledger)
    running.result()
    assert busy.expired[busy.second].id not in leased_ids(observer)
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("call", HOLDERS)
@pytest.mark.parametrize("stop", ["before update message", "before delete lease", "before update tick"])
def test_sweep_stopped_after_it_locked_makes_the_holder_lose(
    database: SharedDatabase, stop: str, call: str
) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer, expired=True)
    with paused(database, stop, lambda one: do_dispatch(one, busy, None)) as running:
        late = database.start(lambda: OPERATIONS[call](two, busy, busy.expired[busy.first]))
        until(lambda: database.is_waiting(two, one), f"{call} to wait for the sweep")
        go_on(database, busy, complete)
        go_on(database, busy, urgent_create)
    running.result()
    assert late.result(timeout=10).result == "lost"
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("call", HOLDERS)
def test_sweep_stopped_while_it_parks_the_dead(database: SharedDatabase, call: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer, expired=True)
    lease = busy.expired[busy.first]
    observer.execute("UPDATE message SET max_attempts = 1 WHERE id = %s", (lease.id,))
    with paused(database, "before insert dead", lambda one: do_dispatch(one, busy, None)) as running:
        late = database.start(lambda: OPERATIONS[call](two, busy, lease))
        until(lambda: database.is_waiting(two, one), f"{call} to wait for the sweep")
        go_on(database, busy, dequeue)
    running.result()
    assert late.result(timeout=10).result == "lost", (
        "it is parked as dead: not lost from sight, but to this token"
    )
    assert observer.execute("SELECT id, attempts FROM dead").fetchall() == [(lease.id, 1)]
    observer.execute("DELETE FROM dead")
    busy.ledger.finish(lease.id)
    check_and_deliver_all(observer, busy.ledger)


# A holder, stopped before its statement finds the message.


def swept(conn: psycopg.Connection, busy: BusyQueue, _lease: Lease) -> None:
    sweep(conn, busy)


def swept_and_taken_again(conn: psycopg.Connection, busy: BusyQueue, lease: Lease) -> None:
    sweep(conn, busy)
    for delivery in take(conn):
        busy.ledger.lease(delivery)
    assert lease.id in busy.ledger.leases


def extended(conn: psycopg.Connection, busy: BusyQueue, lease: Lease) -> None:
    finish(busy, do_extend(conn, busy, lease))


def completed(conn: psycopg.Connection, busy: BusyQueue, lease: Lease) -> None:
    finish(busy, do_complete(conn, busy, lease))


def retried(conn: psycopg.Connection, busy: BusyQueue, lease: Lease) -> None:
    finish(busy, do_retry(conn, busy, lease))


@pytest.mark.parametrize(
    ("happens", "answers"),
    [
        (swept, ("lost", "lost")),
        (swept_and_taken_again, ("lost", "lost")),
        (extended, ("completed", "extended")),
        (completed, ("not_found", "not_found")),
        (retried, ("lost", "lost")),
    ],
    ids=lambda argument: getattr(argument, "__name__", ""),
)
@pytest.mark.parametrize(
    ("call", "stop"), [("complete", "before delete message"), ("extend", "extend has found its lease")]
)
@pytest.mark.parametrize("form", ["one", "many"])
def test_holder_stopped(
    database: SharedDatabase,
    form: str,
    call: str,
    stop: str,
    happens: Callable[[psycopg.Connection, BusyQueue, Lease], None],
    answers: tuple[str, str],
) -> None:
    observer, two = database.session("observer"), database.session("two")
    busy = build(observer, expired=True)
    lease = busy.expired[busy.first]

    def holder(one: psycopg.Connection) -> Outcome:
        if form == "one":
            return OPERATIONS[call](one, busy, lease)
        arguments = "ARRAY[%s::BIGINT], ARRAY[%s::UUID]" + (", 7200000" if call == "extend" else "")
        result = value(one, f"SELECT result FROM message_{call}_many({arguments})", *lease)
        return Outcome(result, lambda ledger: ledger.finish(lease.id) if result == "completed" else None)

    with paused(database, stop, holder) as running, fail_on_lock_wait(two):
        happens(two, busy, lease)
        after = see(observer)
    outcome = running.result()
    assert outcome.result == answers[call == "extend"]
    assert outcome.result == HOLDERS[call] or see(observer) == after, "refused, and yet it changed something"
    outcome.commit(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("call", HOLDERS)
def test_holder_stopped_after_its_write_is_skipped_by_the_sweep(database: SharedDatabase, call: str) -> None:
    """All other leases are swept meanwhile, and its write is kept."""
    observer, two = database.session("observer"), database.session("two")
    busy = build(observer, expired=True)
    lease = busy.expired[busy.first]
    stops = {
        "complete": "after delete message",
        "retry": "after update message",
        "extend": "after insert lease",
    }
    with paused(database, stops[call], lambda one: OPERATIONS[call](one, busy, lease)) as running:
        with fail_on_lock_wait(two):
            assert value(two, "SELECT dispatch()") is False
        other = busy.expired[busy.second]
        assert lease.id in leased_ids(observer)
        assert (other.id in leased_ids(observer)) == (call == "extend"), (
            "an extend holds what one dequeue took"
        )
    outcome = running.result()
    assert outcome.result == HOLDERS[call]
    outcome.commit(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("call", ["complete", "retry"])
def test_a_slot_is_not_free_before_the_commit(database: SharedDatabase, call: str) -> None:
    observer, two = database.session("observer"), database.session("two")
    busy = build(observer)
    full = leased_by_channel(observer)[busy.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (busy.first, full))
    # Leases from before the limit append no notice when they end, so start two that do.
    for lease in busy.leases[busy.first]:
        finish(busy, do_complete(observer, busy, lease))
    dispatch(observer)
    mine = [delivery for delivery in lease_all(observer, busy) if delivery.channel == busy.first]
    lease = Lease(mine[0].id, mine[0].token)
    with paused(database, "before insert notice", lambda one: OPERATIONS[call](one, busy, lease)) as running:
        with fail_on_lock_wait(two):
            two.execute("SELECT dispatch()")
            assert busy.first not in {delivery.channel for delivery in lease_all(two, busy)}
        check_limits(observer)
    running.result().commit(busy.ledger)
    dispatch(observer)
    more = [delivery for delivery in lease_all(observer, busy) if delivery.channel == busy.first]
    assert len(more) == 1
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("second", HOLDERS)
@pytest.mark.parametrize("first", HOLDERS)
def test_batches_in_opposite_orders_do_not_deadlock(
    database: SharedDatabase, first: str, second: str
) -> None:
    """Both want the same messages; a third transaction locks one in the middle until both are running."""
    observer, gate = database.session("observer"), database.session("gate")
    one, two = database.session("one"), database.session("two")
    busy = build(observer)
    leases = sorted(busy.leases[busy.first] + busy.leases[busy.second])
    gate.execute("BEGIN")
    gate.execute("SELECT FROM message WHERE id = %s FOR UPDATE", (leases[1].id,))
    if "extend" in {first, second}:
        gate.execute("SELECT FROM lease WHERE token = %s FOR UPDATE", (leases[0].token,))

    def batch(conn: psycopg.Connection, call: str, order: list[Lease]) -> list[Any]:
        query = f"SELECT id, result FROM message_{call}_many(%s, %s{', 7200000' if call == 'extend' else ''})"
        return conn.execute(
            query, ([lease.id for lease in order], [lease.token for lease in order])
        ).fetchall()

    early = database.start(lambda: batch(one, first, leases))
    until(lambda: database.is_waiting(one, gate), "the first batch to wait")
    late = database.start(lambda: batch(two, second, leases[::-1]))
    until(
        lambda: database.is_waiting(two, one) or database.is_waiting(two, gate),
        "the second batch to wait for the first",
    )
    gate.execute("ROLLBACK")
    results = dict(early.result(timeout=10)), dict(late.result(timeout=10))
    after = {"complete": "not_found", "extend": HOLDERS[second], "retry": "lost"}[first]
    if (first == "extend") == (second == "extend"):
        assert set(results[0].values()) == {HOLDERS[first]}
        assert set(results[1].values()) == {after}
    else:  # they conflict only on the lease, which either may lock first
        for call, result in zip((first, second), results, strict=True):
            assert set(result.values()) <= (
                {"extended", "lost", "not_found"} if call == "extend" else {HOLDERS[call]}
            )
    for lease in leases:
        for result in results:
            if result[lease.id] == "completed":
                busy.ledger.finish(lease.id)
            elif result[lease.id] == "retried":
                busy.ledger.end_lease(lease.id)
    check_and_deliver_all(observer, busy.ledger)


# Rebuild against everything.


@pytest.mark.cases(12)
@names(
    urgent_create,
    later_create,
    producer,
    complete,
    extend,
    retry,
    limit,
    dispatch_once,
    maintain,
)
@pytest.mark.parametrize(
    "stop",
    ["before delete ready", "before delete slots", "before update tick", "after update tick"],
)
@pytest.mark.parametrize("leases", ["running", "expired"])
def test_rebuild_stopped(database: SharedDatabase, leases: str, stop: str, meanwhile: Meanwhile) -> None:
    observer = database.session("observer")
    busy = build(observer, expired=leases == "expired")
    with paused(database, stop, lambda one: one.execute("SELECT rebuild()")) as running:
        go_on(database, busy, meanwhile)
    running.result()
    check_and_deliver_all(observer, busy.ledger)


def test_rebuild_stopped_holds_up_a_dequeue_until_it_ends(database: SharedDatabase) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer)
    with paused(database, "before delete ready", lambda one: one.execute("SELECT rebuild()")):
        running = database.start(lambda: do_dequeue(two, busy, 100))
        until(lambda: database.is_waiting(two, one), "the dequeue to wait for the rebuild")
    running.result(timeout=10).commit(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("first", OPERATIONS)
def test_rebuild_while_open(database: SharedDatabase, first: str, ending: str) -> None:
    """It waits for a dispatch and for open dequeues, and for nothing else."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer, expired=first == "sweep")
    one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" if first == "snapshot" else "BEGIN")
    opened = OPERATIONS[first](one, busy, target(busy, first))
    commit_later_transaction(observer)
    if first in {"dispatch", "sweep", "dequeue"}:
        running = database.start(lambda: two.execute("SELECT rebuild()"))
        until(lambda: database.is_waiting(two, one), f"rebuild to wait for {first}")
        end(one, ending)
        running.result(timeout=10)
    else:
        with fail_on_lock_wait(two):
            two.execute("SELECT rebuild()")
        dispatch(observer)
        end(one, ending)
    (opened.commit if ending == "commit" else opened.rollback)(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)


def target(busy: BusyQueue, operation: str) -> Any:
    targets: dict[str, Any] = {
        "create": busy.first,
        "dequeue": 1,
        "channel_set": (busy.first, {"max_concurrency": 7}),
    }
    return (targets | dict.fromkeys(HOLDERS, busy.leases[busy.first][0])).get(operation)


# Cleaning up against everything.


@pytest.mark.cases(12)
@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("order", ["maintain first", "maintain second"])
def test_maintain_and_others_go_on_at_once(
    database: SharedDatabase, order: str, operation: str, ending: str
) -> None:
    """It deletes the notices that were read."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    message_id = create(observer, Ledger(), "new", "long ago")
    dispatch(observer)
    (lease,) = take(observer, 1)
    assert value(observer, "SELECT message_complete(%s, %s)", message_id, lease.token) == "completed"
    busy = build(observer, expired=operation == "sweep")

    def clean(conn: psycopg.Connection) -> Outcome:
        assert value(conn, "SELECT maintain()") > 0
        return Outcome(None)

    def operate(conn: psycopg.Connection) -> Outcome:
        return OPERATIONS[operation](conn, busy, target(busy, operation))

    first, second = (clean, operate) if order == "maintain first" else (operate, clean)
    one.execute("BEGIN")
    opened = first(one)
    commit_later_transaction(observer)
    with fail_on_lock_wait(two):
        met = second(two)
    end(one, ending)
    (opened.commit if ending == "commit" else opened.rollback)(busy.ledger)
    met.commit(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)
