"""Raced pairs: one session is stopped inside a function, between two of its statements; another one runs and
commits; the first goes on and must cope with what it finds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import pytest

from tests import invariants
from tests.isolation.arena import (
    Arena,
    Ledger,
    account,
    check_limits,
    dispatch,
    end,
    held_slots,
    impatient,
    leased_ids,
    overtake,
    take,
    until,
    value,
)
from tests.isolation.pausing import paused
from tests.isolation.scene import (
    OPERATIONS,
    Lease,
    Outcome,
    Scene,
    build,
    create,
    do_complete,
    do_defer,
    do_dequeue,
    do_dispatch,
    do_extend,
    see,
)

Meanwhile = Callable[[psycopg.Connection, Scene], None]

HOLDERS = {"complete": "completed", "extend": "extended", "defer": "retried"}


def finish(scene: Scene, outcome: Outcome) -> None:
    outcome.commit(scene.ledger)


# What may happen while the other is stopped. Each must go on at once.


def urgent_create(conn: psycopg.Connection, scene: Scene) -> None:
    create(conn, scene.ledger, scene.first, "urgent", -5)


def later_create(conn: psycopg.Connection, scene: Scene) -> None:
    create(conn, scene.ledger, scene.first, "later", 15)


def urgent_create_and_dispatch(conn: psycopg.Connection, scene: Scene) -> None:
    urgent_create(conn, scene)
    dispatch_once(conn, scene)


def producer(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, OPERATIONS["producer"](conn, scene, None))


def dispatch_once(conn: psycopg.Connection, scene: Scene) -> None:
    do_dispatch(conn, scene, None)


def sweep(conn: psycopg.Connection, scene: Scene) -> None:
    assert do_dispatch(conn, scene, None).result is False
    assert scene.expired
    scene.ledger.sweep()


def complete(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, do_complete(conn, scene, scene.held[scene.first][0]))


def extend(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, do_extend(conn, scene, scene.held[scene.first][0]))


def defer(conn: psycopg.Connection, scene: Scene) -> None:
    lease = scene.held[scene.first][1]
    assert value(conn, "SELECT message_retry(%s, %s, p_dequeue_at => -9)", *lease) == "retried"
    scene.ledger.end_lease(lease.id)


def defer_and_dispatch(conn: psycopg.Connection, scene: Scene) -> None:
    defer(conn, scene)
    dispatch_once(conn, scene)


def dequeue(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, do_dequeue(conn, scene, 100))


def dequeue_and_complete(conn: psycopg.Connection, scene: Scene) -> None:
    for delivery in take(conn):
        scene.ledger.lease(delivery)
        finish(scene, do_complete(conn, scene, Lease(delivery.id, delivery.token)))


def limit(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, OPERATIONS["channel_set"](conn, scene, (scene.first, {"max_concurrency": 4})))


def cancel_first(conn: psycopg.Connection, scene: Scene) -> None:
    cancel(conn, scene, "ORDER BY tag, id")


def cancel_last(conn: psycopg.Connection, scene: Scene) -> None:
    cancel(conn, scene, "ORDER BY tag DESC, id DESC")


def cancel(conn: psycopg.Connection, scene: Scene, order: str) -> None:
    """One that is ready, and that nobody holds."""
    row = conn.execute(
        f"SELECT id FROM ready WHERE channel = %s {order} LIMIT 1 FOR UPDATE SKIP LOCKED", (scene.first,)
    ).fetchone()
    if row is not None:
        assert value(conn, "SELECT message_cancel(%s)", row[0]) == "cancelled"
        del scene.ledger.contents[row[0]]


def unread(conn: psycopg.Connection, scene: Scene) -> int:
    """The one that no dispatch has seen, unless one does at this moment."""
    return int(value(conn, "SELECT MAX(id) FROM message WHERE channel = %s AND dequeue_at = 12", scene.first))


def cancel_unread(conn: psycopg.Connection, scene: Scene) -> None:
    message_id = unread(conn, scene)
    assert value(conn, "SELECT message_cancel(%s)", message_id) == "cancelled"
    del scene.ledger.contents[message_id]


def reschedule_unread(conn: psycopg.Connection, scene: Scene) -> None:
    """To the time that it has: its new entry is the old one's in all but the generation."""
    assert value(conn, "SELECT message_reschedule(%s, 12)", unread(conn, scene)) == "rescheduled"


def reschedule_unread_for_later(conn: psycopg.Connection, scene: Scene) -> None:
    message_id = unread(conn, scene)
    assert value(conn, "SELECT message_reschedule(%s, clock_ms() + 300)", message_id) == "rescheduled"


def maintain(conn: psycopg.Connection, _scene: Scene) -> None:
    conn.execute("SELECT maintain()")


def names(*meanwhile: Meanwhile) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("meanwhile", meanwhile, ids=lambda function: function.__name__)


def go_on(arena: Arena, scene: Scene, meanwhile: Meanwhile) -> None:
    stranger = arena.session("stranger")
    with impatient(stranger):
        meanwhile(stranger, scene)
    check_limits(arena.session("judge"))


# A dequeue, stopped.


class Stop(NamedTuple):
    """Where a dequeue of so many messages is stopped."""

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


@names(
    urgent_create,
    later_create,
    urgent_create_and_dispatch,
    producer,
    dispatch_once,
    sweep,
    complete,
    extend,
    defer,
    defer_and_dispatch,
    dequeue,
    dequeue_and_complete,
    limit,
    cancel_first,
    cancel_last,
    cancel_unread,
    reschedule_unread,
    maintain,
)
@pytest.mark.parametrize("stop", DEQUEUE_STOPS)
def test_dequeue_stopped(arena: Arena, stop: Stop, meanwhile: Meanwhile) -> None:
    observer = arena.session("judge")
    scene = build(observer, expired=meanwhile is sweep)
    with paused(arena, stop.at, lambda one: do_dequeue(one, scene, stop.limit)) as running:
        go_on(arena, scene, meanwhile)
    taken = running.result()
    if stop.at not in BEFORE_THE_LOCKS:
        assert scene.first in taken.result
        assert len(taken.result) == stop.limit
    taken.commit(scene.ledger)
    account(observer, scene.ledger)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("which", ["tag, id", "tag DESC, id DESC"], ids=["head", "tail"])
@pytest.mark.parametrize("call", ["message_cancel(%s)", "message_reschedule(%s, 12)"])
@pytest.mark.parametrize("wanted", [1, 2, 100])
def test_dequeue_passes_a_waiting_message_that_somebody_holds(
    arena: Arena, wanted: int, call: str, which: str, ending: str
) -> None:
    """The one held is stepped over, not waited for, and not forgotten."""
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    scene = build(observer)
    held = value(observer, f"SELECT id FROM ready WHERE channel = %s ORDER BY {which} LIMIT 1", scene.first)
    two.execute("BEGIN")
    result = value(two, f"SELECT {call}", held)
    assert result in {"cancelled", "rescheduled"}
    with impatient(one):
        taken = do_dequeue(one, scene, wanted)
    assert len(taken.result) == min(wanted, 3)
    taken.commit(scene.ledger)
    assert held not in scene.ledger.leases
    end(two, ending)
    if ending == "commit" and result == "cancelled":
        del scene.ledger.contents[held]
    account(observer, scene.ledger)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("call", ["message_cancel(%s)", "message_reschedule(%s, 12)"])
@pytest.mark.parametrize(
    "stop",
    ["dequeue has its entries", "dequeue has its messages", "before insert lease", "after insert notice"],
)
def test_a_message_that_a_stopped_dequeue_takes_is_cancelled_or_delivered_never_both(
    arena: Arena, stop: str, call: str, ending: str
) -> None:
    """Who cancels it waits for the dequeue. One that has not read it yet gives it up, and takes the next."""
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    scene = build(observer)
    message_id = value(observer, "SELECT id FROM ready ORDER BY tag, id LIMIT 1")
    one.execute("BEGIN")
    with paused(arena, stop, lambda one: do_dequeue(one, scene, 1)) as running:
        late = arena.start(lambda: value(two, f"SELECT {call}", message_id))
        until(lambda: arena.is_waiting(two, one), "the other to wait for the dequeue")
    taken = running.result()
    end(one, ending)
    is_delivered = ending == "commit" and stop != "dequeue has its entries"
    if call.startswith("message_cancel"):
        assert late.result(timeout=10) == ("marked" if is_delivered else "cancelled")
    else:
        assert late.result(timeout=10) == ("leased" if is_delivered else "rescheduled")
    assert taken.result, "it takes the next one instead"
    (taken.commit if ending == "commit" else taken.rollback)(scene.ledger)
    assert (message_id in scene.ledger.leases) == is_delivered
    if call.startswith("message_cancel"):
        token = scene.ledger.leases.pop(message_id, None)
        if token is not None:
            assert value(observer, "SELECT message_complete(%s, %s)", message_id, token) == "cancelled"
        del scene.ledger.contents[message_id]
    account(observer, scene.ledger)


def test_two_that_touch_a_batch_while_it_is_taken(arena: Arena) -> None:
    """One has held a message before the dequeue read it, one begins right after: each is delivered once."""
    observer, one = arena.session("judge"), arena.session("one")
    scene = build(observer)
    ids = [
        i
        for (i,) in observer.execute(
            "SELECT id FROM ready WHERE channel <> 'third' ORDER BY tag, id"
        ).fetchall()
    ]
    observer.execute(
        "BEGIN; SELECT FROM message WHERE id = %s FOR UPDATE; ROLLBACK".replace("%s", str(ids[0]))
    )
    two = arena.session("two")
    with paused(
        arena, "dequeue has its messages", lambda one: invariants.dequeue(one, 100, 3_600_000)[0]
    ) as running:
        late = arena.start(lambda: value(two, "SELECT message_cancel(%s)", ids[1]))
        until(lambda: arena.is_waiting(two, one), "the cancel to wait for the dequeue")
    taken: list[invariants.Delivery] = running.result()
    assert sorted(delivery.id for delivery in taken) == sorted({delivery.id for delivery in taken})
    assert {ids[0], ids[1]} <= {delivery.id for delivery in taken}
    assert late.result(timeout=10) == "marked"
    for delivery in taken:
        scene.ledger.lease(delivery)
    assert value(observer, "SELECT message_complete(%s, %s)", ids[1], taken[0].token) == "cancelled"
    scene.ledger.finish(ids[1])
    scene.ledger.void.pop()
    account(observer, scene.ledger)


@pytest.mark.parametrize("stop", DEQUEUE_STOPS)
def test_two_dequeues_for_one_slot(arena: Arena, stop: Stop) -> None:
    observer = arena.session("judge")
    scene = build(observer)
    running_before = held_slots(observer)[scene.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (scene.first, running_before + 1))
    share_one(arena, scene, stop)
    check_limits(observer)
    dispatch(observer)
    assert scene.first not in {delivery.channel for delivery in lease_all(observer, scene)}
    account(observer, scene.ledger)


@pytest.mark.parametrize("stop", DEQUEUE_STOPS)
def test_two_dequeues_for_one_release(arena: Arena, stop: Stop) -> None:
    observer = arena.session("judge")
    scene = build(observer)
    observer.execute("SELECT channel_set(%s, p_release_interval_ms => 60000)", (scene.first,))
    dispatch(observer)
    # The last release was long ago.
    observer.execute("DELETE FROM served_by; DELETE FROM tally; UPDATE slots SET released_at = NULL")
    observer.execute("UPDATE lease SET dequeued_at = 0")
    observer.execute("SELECT channel_set(%s, p_release_interval_ms => 60000)", (scene.first,))
    share_one(arena, scene, stop)
    dispatch(observer)
    assert scene.first not in {delivery.channel for delivery in lease_all(observer, scene)}
    observer.execute("SELECT channel_set(%s, p_release_interval_ms => 0)", (scene.first,))
    account(observer, scene.ledger)


def share_one(arena: Arena, scene: Scene, stop: Stop) -> None:
    """The first channel may give one more: one of two dequeues has it."""
    observer, two = arena.session("judge"), arena.session("two")
    dispatch(observer)
    with paused(arena, stop.at, lambda one: do_dequeue(one, scene, stop.limit)) as running, impatient(two):
        met = do_dequeue(two, scene, 100)
        met.commit(scene.ledger)
    taken = running.result()
    taken.commit(scene.ledger)
    assert (scene.first in met.result) + (scene.first in taken.result) == 1
    assert (scene.first in met.result) == (stop.at in BEFORE_THE_LOCKS)


def lease_all(conn: psycopg.Connection, scene: Scene) -> list[invariants.Delivery]:
    deliveries = take(conn)
    for delivery in deliveries:
        scene.ledger.lease(delivery)
    return deliveries


@pytest.mark.parametrize("stop", ["dispatch has read", "dispatch has the policies", "before update tick"])
def test_a_slot_freed_while_a_dispatch_finds_none(arena: Arena, stop: str) -> None:
    """The freed slot is told after the look and before the line is closed: it must not be overheard."""
    observer = arena.session("judge")
    scene = build(observer)
    full = held_slots(observer)[scene.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (scene.first, full))
    with paused(arena, stop, lambda one: do_dispatch(one, scene, None)) as running:
        go_on(arena, scene, complete)
    running.result()

    def is_used() -> bool:
        dispatch(observer)
        return scene.first in {delivery.channel for delivery in lease_all(observer, scene)}

    until(is_used, "the freed slot to be used")
    account(observer, scene.ledger)


# A dispatch, stopped.


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
    defer,
    defer_and_dispatch,
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
def test_dispatch_stopped(arena: Arena, stop: str, meanwhile: Meanwhile) -> None:
    observer = arena.session("judge")
    scene = build(observer)
    with paused(arena, stop, lambda one: do_dispatch(one, scene, None)) as running:
        go_on(arena, scene, meanwhile)
    assert running.result().result in {True, False}
    account(observer, scene.ledger)


@pytest.mark.parametrize(
    "stop", ["dispatch has the tick", "dispatch has looked", "dispatch has the lock", "after update tick"]
)
def test_two_dispatches(arena: Arena, stop: str) -> None:
    """One of them dispatches. The other finds nothing left, or the lock held: there may be more to do."""
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer)
    before = value(observer, "SELECT MAX(id) FROM tick")
    with paused(arena, stop, lambda one: do_dispatch(one, scene, None)) as running, impatient(two):
        met = do_dispatch(two, scene, None)
    is_locked = stop in {"dispatch has the lock", "after update tick"}
    assert (running.result().result, met.result) == (False, is_locked)
    ticks = value(observer, "SELECT COUNT(*) FROM tick WHERE id > %s", before)
    assert ticks == 1
    account(observer, scene.ledger)


# A sweep, stopped.


@pytest.mark.parametrize("call", HOLDERS)
def test_sweep_stopped_before_it_locks_finds_the_holder_was_faster(arena: Arena, call: str) -> None:
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer, expired=True)
    with paused(arena, "dispatch has the lock", lambda one: do_dispatch(one, scene, None)) as running:
        with impatient(two):
            met = OPERATIONS[call](two, scene, scene.expired[scene.first])
        assert met.result == HOLDERS[call]
        met.commit(scene.ledger)
    running.result()
    assert scene.expired[scene.second].id not in leased_ids(observer)
    account(observer, scene.ledger)


@pytest.mark.parametrize("call", HOLDERS)
@pytest.mark.parametrize("stop", ["before update message", "before delete lease", "before update tick"])
def test_sweep_stopped_after_it_locked_makes_the_holder_lose(arena: Arena, stop: str, call: str) -> None:
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    scene = build(observer, expired=True)
    with paused(arena, stop, lambda one: do_dispatch(one, scene, None)) as running:
        late = arena.start(lambda: OPERATIONS[call](two, scene, scene.expired[scene.first]))
        until(lambda: arena.is_waiting(two, one), f"{call} to wait for the sweep")
        go_on(arena, scene, complete)
        go_on(arena, scene, urgent_create)
    running.result()
    assert late.result(timeout=10).result == "lost"
    account(observer, scene.ledger)


@pytest.mark.parametrize("call", HOLDERS)
def test_sweep_stopped_while_it_parks_the_dead(arena: Arena, call: str) -> None:
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    scene = build(observer, expired=True)
    lease = scene.expired[scene.first]
    observer.execute("UPDATE message SET max_attempts = 1 WHERE id = %s", (lease.id,))
    with paused(arena, "before insert dead", lambda one: do_dispatch(one, scene, None)) as running:
        late = arena.start(lambda: OPERATIONS[call](two, scene, lease))
        until(lambda: arena.is_waiting(two, one), f"{call} to wait for the sweep")
        go_on(arena, scene, dequeue)
    running.result()
    assert late.result(timeout=10).result == "lost", (
        "it is parked as dead: not lost from sight, but to this token"
    )
    assert observer.execute("SELECT id, attempts FROM dead").fetchall() == [(lease.id, 1)]
    observer.execute("DELETE FROM dead")
    scene.ledger.finish(lease.id)
    account(observer, scene.ledger)


# A holder, stopped before its statement finds the message.


def swept(conn: psycopg.Connection, scene: Scene, _lease: Lease) -> None:
    sweep(conn, scene)


def swept_and_taken_again(conn: psycopg.Connection, scene: Scene, lease: Lease) -> None:
    sweep(conn, scene)
    for delivery in take(conn):
        scene.ledger.lease(delivery)
    assert lease.id in scene.ledger.leases


def extended(conn: psycopg.Connection, scene: Scene, lease: Lease) -> None:
    finish(scene, do_extend(conn, scene, lease))


def completed(conn: psycopg.Connection, scene: Scene, lease: Lease) -> None:
    finish(scene, do_complete(conn, scene, lease))


def deferred(conn: psycopg.Connection, scene: Scene, lease: Lease) -> None:
    finish(scene, do_defer(conn, scene, lease))


@pytest.mark.parametrize(
    ("happens", "answers"),
    [
        (swept, ("lost", "lost")),
        (swept_and_taken_again, ("lost", "lost")),
        (extended, ("completed", "extended")),
        (completed, ("not_found", "not_found")),
        (deferred, ("lost", "lost")),
    ],
    ids=lambda argument: getattr(argument, "__name__", ""),
)
@pytest.mark.parametrize(
    ("call", "stop"), [("complete", "before delete message"), ("extend", "extend has found its lease")]
)
@pytest.mark.parametrize("form", ["one", "many"])
def test_holder_stopped(
    arena: Arena,
    form: str,
    call: str,
    stop: str,
    happens: Callable[[psycopg.Connection, Scene, Lease], None],
    answers: tuple[str, str],
) -> None:
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer, expired=True)
    lease = scene.expired[scene.first]

    def holder(one: psycopg.Connection) -> Outcome:
        if form == "one":
            return OPERATIONS[call](one, scene, lease)
        arguments = "ARRAY[%s::BIGINT], ARRAY[%s::UUID]" + (", 7200000" if call == "extend" else "")
        result = value(one, f"SELECT result FROM message_{call}_many({arguments})", *lease)
        return Outcome(result, lambda ledger: ledger.finish(lease.id) if result == "completed" else None)

    with paused(arena, stop, holder) as running, impatient(two):
        happens(two, scene, lease)
        after = see(observer)
    outcome = running.result()
    assert outcome.result == answers[call == "extend"]
    assert outcome.result == HOLDERS[call] or see(observer) == after, "refused, and yet it changed something"
    outcome.commit(scene.ledger)
    account(observer, scene.ledger)


@pytest.mark.parametrize("call", HOLDERS)
def test_holder_stopped_after_its_write_is_stepped_over_by_the_sweep(arena: Arena, call: str) -> None:
    """Everyone else's leases are swept meanwhile, and what it did stands."""
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer, expired=True)
    lease = scene.expired[scene.first]
    stops = {
        "complete": "after delete message",
        "defer": "after update message",
        "extend": "after insert lease",
    }
    with paused(arena, stops[call], lambda one: OPERATIONS[call](one, scene, lease)) as running:
        with impatient(two):
            assert value(two, "SELECT dispatch()") is False
        other = scene.expired[scene.second]
        assert lease.id in leased_ids(observer)
        assert (other.id in leased_ids(observer)) == (call == "extend"), (
            "an extend holds what one dequeue took"
        )
    outcome = running.result()
    assert outcome.result == HOLDERS[call]
    outcome.commit(scene.ledger)
    account(observer, scene.ledger)


@pytest.mark.parametrize("call", ["complete", "defer"])
def test_a_slot_is_not_free_before_the_commit(arena: Arena, call: str) -> None:
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer)
    full = held_slots(observer)[scene.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (scene.first, full))
    # Leases from before the limit say nothing when they end: let two run that know of it.
    for lease in scene.held[scene.first]:
        finish(scene, do_complete(observer, scene, lease))
    dispatch(observer)
    mine = [delivery for delivery in lease_all(observer, scene) if delivery.channel == scene.first]
    lease = Lease(mine[0].id, mine[0].token)
    with paused(arena, "before insert notice", lambda one: OPERATIONS[call](one, scene, lease)) as running:
        with impatient(two):
            two.execute("SELECT dispatch()")
            assert scene.first not in {delivery.channel for delivery in lease_all(two, scene)}
        check_limits(observer)
    running.result().commit(scene.ledger)
    dispatch(observer)
    more = [delivery for delivery in lease_all(observer, scene) if delivery.channel == scene.first]
    assert len(more) == 1
    account(observer, scene.ledger)


@pytest.mark.parametrize("second", HOLDERS)
@pytest.mark.parametrize("first", HOLDERS)
def test_batches_in_opposite_orders_do_not_deadlock(arena: Arena, first: str, second: str) -> None:
    """Both want the same messages; a third holds one in the middle until both are on their way."""
    observer, gate = arena.session("judge"), arena.session("gate")
    one, two = arena.session("one"), arena.session("two")
    scene = build(observer)
    leases = sorted(scene.held[scene.first] + scene.held[scene.second])
    gate.execute("BEGIN")
    gate.execute("SELECT FROM message WHERE id = %s FOR UPDATE", (leases[1].id,))
    if "extend" in {first, second}:
        gate.execute("SELECT FROM lease WHERE token = %s FOR UPDATE", (leases[0].token,))

    def batch(conn: psycopg.Connection, call: str, order: list[Lease]) -> list[Any]:
        query = f"SELECT id, result FROM message_{call}_many(%s, %s{', 7200000' if call == 'extend' else ''})"
        return conn.execute(
            query, ([lease.id for lease in order], [lease.token for lease in order])
        ).fetchall()

    early = arena.start(lambda: batch(one, first, leases))
    until(lambda: arena.is_waiting(one, gate), "the first batch to wait")
    late = arena.start(lambda: batch(two, second, leases[::-1]))
    until(
        lambda: arena.is_waiting(two, one) or arena.is_waiting(two, gate),
        "the second batch to wait for the first",
    )
    gate.execute("ROLLBACK")
    results = dict(early.result(timeout=10)), dict(late.result(timeout=10))
    after = {"complete": "not_found", "extend": HOLDERS[second], "defer": "lost"}[first]
    if (first == "extend") == (second == "extend"):
        assert set(results[0].values()) == {HOLDERS[first]}
        assert set(results[1].values()) == {after}
    else:  # they meet at the lease alone, which either may have first
        for call, result in zip((first, second), results, strict=True):
            assert set(result.values()) <= (
                {"extended", "lost", "not_found"} if call == "extend" else {HOLDERS[call]}
            )
    for lease in leases:
        for result in results:
            if result[lease.id] == "completed":
                scene.ledger.finish(lease.id)
            elif result[lease.id] == "retried":
                scene.ledger.end_lease(lease.id)
    account(observer, scene.ledger)


# Rebuild against everything.


@names(
    urgent_create,
    later_create,
    producer,
    complete,
    extend,
    defer,
    limit,
    dispatch_once,
    maintain,
)
@pytest.mark.parametrize(
    "stop",
    ["before delete ready", "before delete slots", "before update tick", "after update tick"],
)
@pytest.mark.parametrize("leases", ["running", "expired"])
def test_rebuild_stopped(arena: Arena, leases: str, stop: str, meanwhile: Meanwhile) -> None:
    observer = arena.session("judge")
    scene = build(observer, expired=leases == "expired")
    with paused(arena, stop, lambda one: one.execute("SELECT rebuild()")) as running:
        go_on(arena, scene, meanwhile)
    running.result()
    account(observer, scene.ledger)


def test_rebuild_stopped_holds_up_a_dequeue_until_it_ends(arena: Arena) -> None:
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    scene = build(observer)
    with paused(arena, "before delete ready", lambda one: one.execute("SELECT rebuild()")):
        running = arena.start(lambda: do_dequeue(two, scene, 100))
        until(lambda: arena.is_waiting(two, one), "the dequeue to wait for the rebuild")
    running.result(timeout=10).commit(scene.ledger)
    account(observer, scene.ledger)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("first", OPERATIONS)
def test_rebuild_while_open(arena: Arena, first: str, ending: str) -> None:
    """It waits for who dispatches or takes from ready, and for nobody else."""
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    scene = build(observer, expired=first == "sweep")
    one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" if first == "snapshot" else "BEGIN")
    opened = OPERATIONS[first](one, scene, target(scene, first))
    overtake(observer)
    if first in {"dispatch", "sweep", "dequeue"}:
        running = arena.start(lambda: two.execute("SELECT rebuild()"))
        until(lambda: arena.is_waiting(two, one), f"rebuild to wait for {first}")
        end(one, ending)
        running.result(timeout=10)
    else:
        with impatient(two):
            two.execute("SELECT rebuild()")
        dispatch(observer)
        end(one, ending)
    (opened.commit if ending == "commit" else opened.rollback)(scene.ledger)
    account(observer, scene.ledger)


def target(scene: Scene, operation: str) -> Any:
    targets: dict[str, Any] = {
        "create": scene.first,
        "dequeue": 1,
        "channel_set": (scene.first, {"max_concurrency": 7}),
    }
    return (targets | dict.fromkeys(HOLDERS, scene.held[scene.first][0])).get(operation)


# Cleaning up against everything.


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("order", ["maintain first", "maintain second"])
def test_maintain_and_others_go_on_at_once(arena: Arena, order: str, operation: str, ending: str) -> None:
    """It takes away the notices that are read."""
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    message_id = create(observer, Ledger(), "new", "long ago")
    dispatch(observer)
    (lease,) = take(observer, 1)
    assert value(observer, "SELECT message_complete(%s, %s)", message_id, lease.token) == "completed"
    scene = build(observer, expired=operation == "sweep")

    def clean(conn: psycopg.Connection) -> Outcome:
        assert value(conn, "SELECT maintain()") > 0
        return Outcome(None)

    def operate(conn: psycopg.Connection) -> Outcome:
        return OPERATIONS[operation](conn, scene, target(scene, operation))

    first, second = (clean, operate) if order == "maintain first" else (operate, clean)
    one.execute("BEGIN")
    opened = first(one)
    overtake(observer)
    with impatient(two):
        met = second(two)
    end(one, ending)
    (opened.commit if ending == "commit" else opened.rollback)(scene.ledger)
    met.commit(scene.ledger)
    account(observer, scene.ledger)
