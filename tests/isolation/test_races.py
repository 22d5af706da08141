"""Raced pairs: one session is stopped inside a function, between two of its statements; another one runs and
commits; the first goes on and must cope with what it finds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import pytest

from tests import judge
from tests.isolation.arena import (
    Arena,
    Ledger,
    account,
    check_limits,
    dispatch,
    end,
    held_slots,
    impatient,
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
    do_extend,
    do_fold,
    see,
)

Meanwhile = Callable[[psycopg.Connection, Scene], None]

HOLDERS = {"complete": "completed", "extend": "extended", "defer": "deferred"}


def finish(scene: Scene, outcome: Outcome) -> None:
    outcome.commit(scene.ledger)


# What may happen while the other is stopped. Each must go on at once.


def urgent_create(conn: psycopg.Connection, scene: Scene) -> None:
    create(conn, scene.ledger, scene.first, "urgent", -5)


def later_create(conn: psycopg.Connection, scene: Scene) -> None:
    create(conn, scene.ledger, scene.first, "later", 15)


def urgent_create_and_fold(conn: psycopg.Connection, scene: Scene) -> None:
    urgent_create(conn, scene)
    fold(conn, scene)


def producer(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, OPERATIONS["producer"](conn, scene, None))


def fold(conn: psycopg.Connection, scene: Scene) -> None:
    do_fold(conn, scene, None)


def sweep(conn: psycopg.Connection, scene: Scene) -> None:
    assert do_fold(conn, scene, None).result is False
    assert scene.expired
    scene.ledger.sweep()


def complete(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, do_complete(conn, scene, scene.held[scene.first][0]))


def extend(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, do_extend(conn, scene, scene.held[scene.first][0]))


def defer(conn: psycopg.Connection, scene: Scene) -> None:
    lease = scene.held[scene.first][1]
    assert value(conn, "SELECT message_defer(%s, %s, p_dequeue_at => -9)", *lease) == "deferred"
    scene.ledger.end_lease(lease.id)


def defer_and_fold(conn: psycopg.Connection, scene: Scene) -> None:
    defer(conn, scene)
    fold(conn, scene)


def dequeue(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, do_dequeue(conn, scene, 100))


def dequeue_and_complete(conn: psycopg.Connection, scene: Scene) -> None:
    for delivery in take(conn):
        scene.ledger.lease(delivery)
        finish(scene, do_complete(conn, scene, Lease(delivery.id, delivery.token)))


def limit(conn: psycopg.Connection, scene: Scene) -> None:
    finish(scene, OPERATIONS["channel_set"](conn, scene, (scene.first, {"max_concurrency": 4})))


def cancel_first(conn: psycopg.Connection, scene: Scene) -> None:
    cancel(conn, scene, "ORDER BY dequeue_at, id")


def cancel_last(conn: psycopg.Connection, scene: Scene) -> None:
    cancel(conn, scene, "ORDER BY dequeue_at DESC, id DESC")


def cancel(conn: psycopg.Connection, scene: Scene, order: str) -> None:
    row = conn.execute(
        "SELECT id, message_cancel(id) FROM (SELECT id FROM message WHERE channel = %s AND NOT leased "
        f"{order} LIMIT 1 FOR UPDATE SKIP LOCKED) x",
        (scene.first,),
    ).fetchone()
    if row is not None:
        assert row[1] == "cancelled"
        del scene.ledger.contents[row[0]]


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


# One message goes the plain way, two the general one.
PLAIN_STOPS = [
    Stop(1, "plain dequeue has its channel"),
    Stop(1, "plain dequeue has its policy"),
    Stop(1, "before update message"),
    Stop(1, "before update ring"),
    Stop(1, "after update ring"),
]
GENERAL_STOPS = [
    Stop(2, "dequeue has its channels"),
    Stop(2, "before update ring"),
    Stop(2, "before update message"),
    Stop(2, "after update message"),
]


@names(
    urgent_create,
    later_create,
    urgent_create_and_fold,
    producer,
    fold,
    sweep,
    complete,
    extend,
    defer,
    defer_and_fold,
    dequeue,
    dequeue_and_complete,
    limit,
    cancel_first,
    cancel_last,
    maintain,
)
@pytest.mark.parametrize("stop", [*PLAIN_STOPS, *GENERAL_STOPS])
def test_dequeue_stopped(arena: Arena, stop: Stop, meanwhile: Meanwhile) -> None:
    observer = arena.session("judge")
    scene = build(observer, expired=meanwhile is sweep)
    with paused(arena, stop.at, lambda one: do_dequeue(one, scene, stop.limit)) as running:
        go_on(arena, scene, meanwhile)
    taken = running.result()
    assert scene.first in taken.result
    assert len(taken.result) == stop.limit
    taken.commit(scene.ledger)
    account(observer, scene.ledger)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize(
    "which", ["ORDER BY dequeue_at, id", "ORDER BY dequeue_at DESC, id DESC"], ids=["head", "tail"]
)
@pytest.mark.parametrize("wanted", [1, 2, 100])
def test_dequeue_passes_a_waiting_message_that_somebody_holds(
    arena: Arena, wanted: int, which: str, ending: str
) -> None:
    """The one held is stepped over, not waited for, and not forgotten."""
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer)
    two.execute("BEGIN")
    cancelled = value(
        two,
        f"SELECT id FROM message WHERE channel = %s AND NOT leased {which} LIMIT 1 FOR UPDATE",
        scene.first,
    )
    assert value(two, "SELECT message_cancel(%s)", cancelled) == "cancelled"
    one = arena.session("one")
    with impatient(one):
        taken = do_dequeue(one, scene, wanted)
    assert scene.first in taken.result
    taken.commit(scene.ledger)
    assert cancelled not in scene.ledger.leases
    end(two, ending)
    if ending == "commit":
        del scene.ledger.contents[cancelled]
    account(observer, scene.ledger)


@pytest.mark.parametrize("stop", [*PLAIN_STOPS, *GENERAL_STOPS])
def test_two_dequeues_for_one_slot(arena: Arena, stop: Stop) -> None:
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer)
    running_before = held_slots(observer)[scene.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (scene.first, running_before + 1))
    observer.execute(
        "UPDATE ring r SET running = ARRAY(SELECT id FROM message WHERE leased AND channel = r.channel)"
    )  # as the first dequeue under a new limit does: until then, none goes the plain way
    with paused(arena, stop.at, lambda one: do_dequeue(one, scene, stop.limit)) as running:
        with impatient(two):
            met = do_dequeue(two, scene, 100)
        assert scene.first not in met.result
        met.commit(scene.ledger)
    running.result().commit(scene.ledger)
    check_limits(observer)
    dispatch(observer)
    assert scene.first not in {delivery.channel for delivery in lease_all(observer, scene)}
    account(observer, scene.ledger)


@pytest.mark.parametrize("stop", [*PLAIN_STOPS, *GENERAL_STOPS])
def test_two_dequeues_for_one_release(arena: Arena, stop: Stop) -> None:
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer)
    observer.execute("SELECT channel_set(%s, p_release_interval_ms => 60000)", (scene.first,))
    observer.execute("UPDATE ring SET released_at = NULL WHERE channel = %s", (scene.first,))
    with paused(arena, stop.at, lambda one: do_dequeue(one, scene, stop.limit)) as running:
        with impatient(two):
            met = do_dequeue(two, scene, 100)
        assert scene.first not in met.result
        met.commit(scene.ledger)
    running.result().commit(scene.ledger)
    dispatch(observer)
    assert scene.first not in {delivery.channel for delivery in lease_all(observer, scene)}
    observer.execute("SELECT channel_set(%s, p_release_interval_ms => 0)", (scene.first,))
    account(observer, scene.ledger)


def lease_all(conn: psycopg.Connection, scene: Scene) -> list[judge.Delivery]:
    deliveries = take(conn)
    for delivery in deliveries:
        scene.ledger.lease(delivery)
    return deliveries


def test_a_slot_freed_while_a_dequeue_finds_none(arena: Arena) -> None:
    """The freed slot is said after the look and before the ring row says 'full': it must not be overheard."""
    observer = arena.session("judge")
    scene = build(observer)
    observer.execute(
        "SELECT channel_set(%s, p_max_concurrency => %s)", (scene.first, held_slots(observer)[scene.first])
    )
    dispatch(observer)
    with paused(arena, "before update ring", lambda one: do_dequeue(one, scene, 1)) as running:
        go_on(arena, scene, complete)
        go_on(arena, scene, fold)
    running.result().commit(scene.ledger)
    account(observer, scene.ledger)


# A fold, stopped.


@names(
    urgent_create,
    later_create,
    urgent_create_and_fold,
    producer,
    fold,
    dequeue,
    dequeue_and_complete,
    complete,
    extend,
    defer,
    defer_and_fold,
    limit,
    cancel_first,
    maintain,
)
@pytest.mark.parametrize(
    "stop",
    [
        "fold has the tick",
        "fold has read",
        "fold has the lock",
        "before update ring",
        "before delete tick",
        "after insert tick",
    ],
)
def test_fold_stopped(arena: Arena, stop: str, meanwhile: Meanwhile) -> None:
    observer = arena.session("judge")
    scene = build(observer)
    with paused(arena, stop, lambda one: do_fold(one, scene, None)) as running:
        go_on(arena, scene, meanwhile)
    assert running.result().result in {True, False}
    account(observer, scene.ledger)


@pytest.mark.parametrize(
    "stop", ["fold has the tick", "fold has read", "fold has the lock", "after insert tick"]
)
def test_two_folds(arena: Arena, stop: str) -> None:
    """Only one of them folds; the other says that there may be more to do."""
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer)
    before = value(observer, "SELECT MAX(id) FROM tick")
    with paused(arena, stop, lambda one: do_fold(one, scene, None)) as running, impatient(two):
        met = do_fold(two, scene, None)
    is_late = stop in {"fold has the tick", "fold has read"}
    assert (running.result().result, met.result) == (is_late, not is_late)
    ticks = value(observer, "SELECT COUNT(*) FROM tick WHERE id > %s", before)
    assert ticks == 1
    account(observer, scene.ledger)


# A sweep, stopped.


@pytest.mark.parametrize("call", HOLDERS)
def test_sweep_stopped_before_it_locks_finds_the_holder_was_faster(arena: Arena, call: str) -> None:
    observer, two = arena.session("judge"), arena.session("two")
    scene = build(observer, expired=True)
    with paused(arena, "sweep has read", lambda one: do_fold(one, scene, None)) as running:
        with impatient(two):
            met = OPERATIONS[call](two, scene, scene.expired[scene.first])
        assert met.result == HOLDERS[call]
        met.commit(scene.ledger)
    running.result()
    assert (
        value(observer, "SELECT leased FROM message WHERE id = %s", scene.expired[scene.second].id) is False
    )
    account(observer, scene.ledger)


@pytest.mark.parametrize("call", HOLDERS)
@pytest.mark.parametrize("stop", ["before update message", "before update ring", "before insert tick"])
def test_sweep_stopped_after_it_locked_makes_the_holder_lose(arena: Arena, stop: str, call: str) -> None:
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    scene = build(observer, expired=True)
    with paused(arena, stop, lambda one: do_fold(one, scene, None)) as running:
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
    with paused(arena, "before insert dead", lambda one: do_fold(one, scene, None)) as running:
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
    ("call", "stop"), [("complete", "before delete message"), ("extend", "before update message")]
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
    stop = "after delete message" if call == "complete" else "after update message"
    with paused(arena, stop, lambda one: OPERATIONS[call](one, scene, lease)) as running:
        with impatient(two):
            assert value(two, "SELECT dispatch()") is False
        other = scene.expired[scene.second]
        assert value(observer, "SELECT leased FROM message WHERE id = %s", other.id) is False
        assert value(observer, "SELECT leased FROM message WHERE id = %s", lease.id) is True
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
    with paused(arena, "before insert wake", lambda one: OPERATIONS[call](one, scene, lease)) as running:
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

    def batch(conn: psycopg.Connection, call: str, order: list[Lease]) -> list[Any]:
        query = f"SELECT id, result FROM message_{call}_many(%s, %s{', 7200000' if call == 'extend' else ''})"
        return conn.execute(
            query, ([lease.id for lease in order], [lease.token for lease in order])
        ).fetchall()

    early = arena.start(lambda: batch(one, first, leases))
    until(lambda: arena.is_waiting(one, gate), "the first batch to wait")
    late = arena.start(lambda: batch(two, second, leases[::-1]))
    until(lambda: arena.is_waiting(two, one), "the second batch to wait for the first")
    gate.execute("ROLLBACK")
    after = {"complete": "not_found", "extend": HOLDERS[second], "defer": "lost"}[first]
    assert early.result(timeout=10) == [(lease.id, HOLDERS[first]) for lease in leases]
    assert late.result(timeout=10) == [(lease.id, after) for lease in leases[::-1]]
    for lease in leases:
        for result in (HOLDERS[first], after):
            if result == "completed":
                scene.ledger.finish(lease.id)
            elif result == "deferred":
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
    cancel_first,
    fold,
    maintain,
)
@pytest.mark.parametrize(
    "stop",
    [
        "rebuild has the locks",
        "rebuild has its snapshot",
        "before delete wake",
        "rebuild has no wakes",
        "before insert wake",
        "before insert tick",
    ],
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
    with paused(arena, "rebuild has its snapshot", lambda one: one.execute("SELECT rebuild()")):
        running = arena.start(lambda: do_dequeue(two, scene, 100))
        until(lambda: arena.is_waiting(two, one), "the dequeue to wait for the rebuild")
    running.result(timeout=10).commit(scene.ledger)
    account(observer, scene.ledger)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("first", OPERATIONS)
def test_rebuild_while_open(arena: Arena, first: str, ending: str) -> None:
    """It waits for who holds places in the line, and for nobody else."""
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    scene = build(observer, expired=first == "sweep")
    one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" if first == "snapshot" else "BEGIN")
    opened = OPERATIONS[first](one, scene, target(scene, first))
    overtake(observer)
    if first in {"fold", "sweep", "dequeue"}:
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
    """It takes away folded wakes, and the places of channels that were quiet for long and may come back."""
    observer, one, two = arena.session("judge"), arena.session("one"), arena.session("two")
    message_id = create(observer, Ledger(), "new", "long ago")
    dispatch(observer)
    (lease,) = take(observer, 1)
    assert value(observer, "SELECT message_complete(%s, %s)", message_id, lease.token) == "completed"
    take(observer)  # finds nothing more: the channel leaves the line
    observer.execute("UPDATE ring SET released_at = 0 WHERE channel = 'new'")
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
