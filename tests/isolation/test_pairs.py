"""Every ordered pair of operations: the first runs and its transaction stays open, the second runs
meanwhile, the first commits or rolls back. The table says for each pair what the second may experience. A
third session then checks that nothing was lost or delivered twice, that limits held, and that exactly the
live tokens are accepted.
"""

from typing import Any, NamedTuple

import psycopg
import pytest

from tests import invariants
from tests.isolation.busy_queue import OPERATIONS, BusyQueue, Outcome, build, do_dequeue, see
from tests.isolation.shared_database import (
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
    unsettled,
    until,
    value,
)


class Experience(NamedTuple):
    """What happens to the second operation. It may wait only where the table says so."""

    kind: str
    left: frozenset[str] = frozenset()  # channels that are skipped, by their roles
    results: tuple[str, str] = ("", "")  # the result after waiting: for a commit, for a rollback


AT_ONCE = Experience("at once")
LOST = Experience("lost")
POLICY = Experience("waits for the policy")


def steps_over(*roles: str) -> Experience:
    return Experience("steps over", frozenset(roles))


def waits(committed: str, rolled_back: str) -> Experience:
    return Experience("waits", results=(committed, rolled_back))


# The dispatch lock is taken: the call does nothing and returns TRUE, "call again".
DISPATCH_TAKEN = steps_over("first", "new")
SWEEP_TAKEN = steps_over("first", "second")
# The lease row is locked, with all messages of that dequeue.
LEASE_HELD = Experience("steps over", frozenset({"first", "second"}))

# (open, meanwhile): {where they meet: what the second experiences}
PAIRS: dict[tuple[str, str], dict[str, Experience]] = {
    # Producers only append: whatever is open, they do not wait.
    ("create", "create"): {"same channel": AT_ONCE},
    ("dispatch", "create"): {"same channel": AT_ONCE},
    ("dequeue", "create"): {"same channel": AT_ONCE},
    ("complete", "create"): {"same channel": AT_ONCE},
    ("extend", "create"): {"same channel": AT_ONCE},
    ("retry", "create"): {"same channel": AT_ONCE},
    ("sweep", "create"): {"same channel": AT_ONCE},
    ("channel_set", "create"): {"same channel": AT_ONCE},
    ("producer", "create"): {"same channel": AT_ONCE},
    ("snapshot", "create"): {"same channel": AT_ONCE},
    ("create", "producer"): {"same channel": AT_ONCE},
    ("dispatch", "producer"): {"same channel": AT_ONCE},
    ("dequeue", "producer"): {"same channel": AT_ONCE},
    ("complete", "producer"): {"same channel": AT_ONCE},
    ("extend", "producer"): {"same channel": AT_ONCE},
    ("retry", "producer"): {"same channel": AT_ONCE},
    ("sweep", "producer"): {"same channel": AT_ONCE},
    ("channel_set", "producer"): {"same channel": AT_ONCE},
    ("producer", "producer"): {"same channel": AT_ONCE},
    ("snapshot", "producer"): {"same channel": AT_ONCE},
    # Only another dispatch stops a dispatch. Rows that are locked are left for later.
    ("create", "dispatch"): {"same channel": AT_ONCE},
    ("dispatch", "dispatch"): {"same channel": DISPATCH_TAKEN},
    ("dequeue", "dispatch"): {"same channel": AT_ONCE},
    ("complete", "dispatch"): {"same channel": AT_ONCE},
    ("extend", "dispatch"): {"same channel": AT_ONCE},
    ("retry", "dispatch"): {"same channel": AT_ONCE},
    ("sweep", "dispatch"): {"same channel": DISPATCH_TAKEN},
    ("channel_set", "dispatch"): {"same channel": AT_ONCE},
    ("producer", "dispatch"): {"same channel": AT_ONCE},
    ("snapshot", "dispatch"): {"same channel": AT_ONCE},
    # A dequeue takes all of ready, except the entries that are locked: by another dequeue, or by a
    # dispatch that moves them back into their line, behind those that came back.
    ("create", "dequeue"): {"same channel": AT_ONCE},
    ("dispatch", "dequeue"): {"same channel": AT_ONCE},
    ("dequeue", "dequeue"): {
        "same channel": AT_ONCE,
        "all channels": steps_over("first", "second", "third"),
    },
    ("complete", "dequeue"): {"same channel": AT_ONCE},
    ("extend", "dequeue"): {"same channel": AT_ONCE},
    ("retry", "dequeue"): {"same channel": AT_ONCE},
    ("sweep", "dequeue"): {"same channel": steps_over("first", "second")},
    ("channel_set", "dequeue"): {"same channel": AT_ONCE},
    ("producer", "dequeue"): {"same channel": AT_ONCE},
    ("snapshot", "dequeue"): {"same channel": AT_ONCE},
    # Holders conflict only on the same message: the later one waits, and learns what happened to it.
    # An extend writes only the lease: it conflicts with extends of the same dequeue and with the sweep, not
    # with a complete or a retry.
    ("create", "complete"): {"same channel": AT_ONCE},
    ("dispatch", "complete"): {"same channel": AT_ONCE},
    ("dequeue", "complete"): {"same channel": AT_ONCE, "same message": LOST},
    ("complete", "complete"): {"same channel": AT_ONCE, "same message": waits("not_found", "completed")},
    ("extend", "complete"): {"same channel": AT_ONCE, "same message": AT_ONCE},
    ("retry", "complete"): {"same channel": AT_ONCE, "same message": waits("lost", "completed")},
    ("sweep", "complete"): {"same channel": AT_ONCE, "same message": waits("lost", "completed")},
    ("channel_set", "complete"): {"same channel": AT_ONCE},
    ("producer", "complete"): {"same channel": AT_ONCE},
    ("snapshot", "complete"): {"same channel": AT_ONCE},
    ("create", "extend"): {"same channel": AT_ONCE},
    ("dispatch", "extend"): {"same channel": AT_ONCE},
    ("dequeue", "extend"): {"same channel": AT_ONCE, "same message": LOST},
    ("complete", "extend"): {"same channel": AT_ONCE, "same message": AT_ONCE},
    ("extend", "extend"): {
        "same channel": waits("extended", "extended"),
        "same message": waits("extended", "extended"),
    },
    ("retry", "extend"): {"same channel": AT_ONCE, "same message": AT_ONCE},
    ("sweep", "extend"): {"same channel": AT_ONCE, "same message": waits("lost", "extended")},
    ("channel_set", "extend"): {"same channel": AT_ONCE},
    ("producer", "extend"): {"same channel": AT_ONCE},
    ("snapshot", "extend"): {"same channel": AT_ONCE},
    ("create", "retry"): {"same channel": AT_ONCE},
    ("dispatch", "retry"): {"same channel": AT_ONCE},
    ("dequeue", "retry"): {"same channel": AT_ONCE, "same message": LOST},
    ("complete", "retry"): {"same channel": AT_ONCE, "same message": waits("not_found", "retried")},
    ("extend", "retry"): {"same channel": AT_ONCE, "same message": AT_ONCE},
    ("retry", "retry"): {"same channel": AT_ONCE, "same message": waits("lost", "retried")},
    ("sweep", "retry"): {"same channel": AT_ONCE, "same message": waits("lost", "retried")},
    ("channel_set", "retry"): {"same channel": AT_ONCE},
    ("producer", "retry"): {"same channel": AT_ONCE},
    ("snapshot", "retry"): {"same channel": AT_ONCE},
    # A sweep skips a lease that its holder has locked, and sweeps all others.
    ("create", "sweep"): {"same channel": AT_ONCE},
    ("dispatch", "sweep"): {"same channel": SWEEP_TAKEN},
    ("dequeue", "sweep"): {"same channel": AT_ONCE},
    ("complete", "sweep"): {"same channel": AT_ONCE, "same message": steps_over("first")},
    ("extend", "sweep"): {"same channel": AT_ONCE, "same message": LEASE_HELD},
    ("retry", "sweep"): {"same channel": AT_ONCE, "same message": steps_over("first")},
    ("sweep", "sweep"): {"same channel": SWEEP_TAKEN},
    ("channel_set", "sweep"): {"same channel": AT_ONCE},
    ("producer", "sweep"): {"same channel": AT_ONCE},
    ("snapshot", "sweep"): {"same channel": AT_ONCE},
    # A policy is locked only by a call that sets it.
    ("create", "channel_set"): {"same channel": AT_ONCE},
    ("dispatch", "channel_set"): {"same channel": AT_ONCE},
    ("dequeue", "channel_set"): {"same channel": AT_ONCE},
    ("complete", "channel_set"): {"same channel": AT_ONCE},
    ("extend", "channel_set"): {"same channel": AT_ONCE},
    ("retry", "channel_set"): {"same channel": AT_ONCE},
    ("sweep", "channel_set"): {"same channel": AT_ONCE},
    ("channel_set", "channel_set"): {"same channel": POLICY, "other channel": AT_ONCE},
    ("producer", "channel_set"): {"same channel": AT_ONCE},
    ("snapshot", "channel_set"): {"same channel": AT_ONCE},
    # A snapshot locks nothing, and sees nothing of what is open.
    ("create", "snapshot"): {"same channel": AT_ONCE},
    ("dispatch", "snapshot"): {"same channel": AT_ONCE},
    ("dequeue", "snapshot"): {"same channel": AT_ONCE},
    ("complete", "snapshot"): {"same channel": AT_ONCE},
    ("extend", "snapshot"): {"same channel": AT_ONCE},
    ("retry", "snapshot"): {"same channel": AT_ONCE},
    ("sweep", "snapshot"): {"same channel": AT_ONCE},
    ("channel_set", "snapshot"): {"same channel": AT_ONCE},
    ("producer", "snapshot"): {"same channel": AT_ONCE},
    ("snapshot", "snapshot"): {"same channel": AT_ONCE},
}

# Every pair runs by default, in turn with the one and the other ending.
CASES = [
    pytest.param(
        *(*pair, place, ending),
        id=f"{pair[1]}-while-{pair[0]}-open-{place.replace(' ', '-')}-{ending}",
        marks=[pytest.mark.long] if number % 4 in {1, 2} else [],
    )
    for number, (pair, place, ending) in enumerate(
        (pair, place, ending)
        for pair, places in PAIRS.items()
        for place in places
        for ending in ("commit", "rollback")
    )
]
ENDINGS = pytest.mark.parametrize("ending", ["commit", "rollback"])
HOLDERS = {"complete": "completed", "extend": "extended", "retry": "retried"}


def test_every_pair_is_there() -> None:
    assert set(PAIRS) == {(first, second) for first in OPERATIONS for second in OPERATIONS}


@pytest.mark.cases(12)
@pytest.mark.parametrize(("first", "second", "place", "ending"), CASES)
def test_pair(database: SharedDatabase, first: str, second: str, place: str, ending: str) -> None:
    experience = PAIRS[first, second][place]
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = prepare(observer, first, second, experience)
    begin(one, first)
    opened = OPERATIONS[first](one, busy, target_of_first(busy, first, second, place))
    commit_later_transaction(observer)
    visible = see(observer)

    def meanwhile() -> Outcome:
        if second in {"producer", "snapshot"}:
            begin(two, second)
        return OPERATIONS[second](two, busy, target_of_second(busy, first, second, place))

    if experience.kind.startswith("waits"):
        running = database.start(meanwhile)
        until(lambda: database.is_waiting(two, one), f"{second} to wait for {first}")
        end(one, ending)
        met = running.result(timeout=10)
    else:
        with fail_on_lock_wait(two):
            met = meanwhile()
        check_limits(observer)
        check_view(observer, busy, second, experience, met, visible)
        assert first != "snapshot" or see(one) == opened.result
        end(one, ending)
    check_result(second, experience, met, ending)

    (opened.commit if ending == "commit" else opened.rollback)(busy.ledger)
    if second == "producer":
        dispatch(observer)  # a dispatch passes it while it is still open
        end(two, "commit")
    met.commit(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)
    if second == "snapshot":
        assert see(two) == met.result
        end(two, "commit")


def prepare(conn: psycopg.Connection, first: str, second: str, experience: Experience) -> BusyQueue:
    busy = build(conn, expired="sweep" in {first, second} or experience is LOST)
    if experience is LOST:
        # The lease ran out and was swept: its token is void, and the message is the next of its channel.
        dispatch(conn)
        busy.ledger.sweep()
    return busy


def begin(conn: psycopg.Connection, operation: str) -> None:
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ" if operation == "snapshot" else "BEGIN")


def target_of_first(busy: BusyQueue, first: str, second: str = "", place: str = "") -> Any:
    if first == "create":
        return busy.first
    if first == "dequeue":
        return 100 if place == "all channels" else 1
    if first in HOLDERS:
        is_swept = second == "sweep" and place == "same message"
        return busy.expired[busy.first] if is_swept else busy.leases[busy.first][0]
    if first == "channel_set":
        return busy.first, {"max_concurrency": 7}
    return None


def target_of_second(busy: BusyQueue, first: str, second: str, place: str) -> Any:
    if second == "create":
        return busy.first
    if second == "dequeue":
        return 100
    if second in HOLDERS:
        if place == "same channel":
            return busy.leases[busy.first][1]
        return busy.leases[busy.first][0] if first in HOLDERS else busy.expired[busy.first]
    if second == "channel_set":
        return busy.second if place == "other channel" else busy.first, {"release_interval_us": 1000}
    return None


def check_view(
    conn: psycopg.Connection, busy: BusyQueue, second: str, experience: Experience, met: Outcome, visible: Any
) -> None:
    """What the second operation did while the first was open: it left exactly what the table says."""
    left = {getattr(busy, role) for role in experience.left}
    if second == "snapshot":
        assert met.result == visible
    elif second == "dequeue":
        assert {busy.first, busy.second, busy.third} - met.result == left
    elif second == "sweep":
        leased = leased_ids(conn)
        assert {channel for channel, lease in busy.expired.items() if lease.id in leased} == left
        assert met.result == (experience is SWEEP_TAKEN)
    elif second == "dispatch":
        placed = value(conn, "SELECT COUNT(*) FROM ready WHERE channel = %s", busy.new)
        assert placed == (0 if busy.new in left else 1)
        assert met.result == (experience is DISPATCH_TAKEN)


def check_result(second: str, experience: Experience, met: Outcome, ending: str) -> None:
    if second in HOLDERS:
        expected = {
            "at once": HOLDERS[second],
            "lost": "lost",
            "waits": experience.results[ending == "rollback"],
        }
        assert met.result == expected[experience.kind]
    elif second == "channel_set":
        # An operation that waited sees what the first one set, if that committed.
        limit = 7 if experience is POLICY and ending == "commit" else None
        max_concurrency, release_interval_us, *_ = met.result
        assert (max_concurrency, release_interval_us) == (limit, 1000)
    elif second in {"create", "producer"}:
        assert met.result in ("created", {"created"})


@ENDINGS
@pytest.mark.parametrize("first", [name for name in OPERATIONS if name not in {"dispatch", "sweep"}])
def test_new_messages_of_others_are_served_while_open(
    database: SharedDatabase, first: str, ending: str
) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer)
    begin(one, first)
    opened = OPERATIONS[first](one, busy, target_of_first(busy, first))
    with fail_on_lock_wait(two):
        for round_ in range(3):
            name = f"stranger {round_}"
            message_id = value(two, "SELECT id FROM message_create(%s, %s)", name, name.encode())
            busy.ledger.create(message_id, name.encode())
            assert value(two, "SELECT dispatch()") is False
            served = do_dequeue(two, busy, 100)
            assert name in served.result
            served.commit(busy.ledger)
    end(one, ending)
    (opened.commit if ending == "commit" else opened.rollback)(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)


# How many more messages a full channel releases after the operation committed or rolled back.
FREED = {
    "create": (0, 0),
    "dispatch": (0, 0),
    "dequeue": (0, 0),
    "complete": (1, 0),
    "extend": (0, 0),
    "retry": (1, 0),
    "sweep": (1, 1),  # rolled back, the next dispatch sweeps again
    "channel_set": (2, 0),
    "producer": (0, 0),
    "snapshot": (0, 0),
}


@pytest.mark.cases(10)
@ENDINGS
@pytest.mark.parametrize("first", FREED)
def test_a_full_channel_gives_no_more_until_a_slot_is_free_for_good(
    database: SharedDatabase, first: str, ending: str
) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer, expired=first == "sweep")
    running = leased_by_channel(observer)[busy.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (busy.first, running))
    if first != "sweep":
        dispatch(observer)
        assert busy.first not in {delivery.channel for delivery in lease_all(observer, busy)}
    begin(one, first)
    more = (busy.first, {"max_concurrency": running + 2})
    opened = OPERATIONS[first](one, busy, more if first == "channel_set" else target_of_first(busy, first))
    with fail_on_lock_wait(two):
        two.execute("SELECT dispatch()")
        assert busy.first not in {delivery.channel for delivery in lease_all(two, busy)}
    check_limits(observer)
    end(one, ending)
    (opened.commit if ending == "commit" else opened.rollback)(busy.ledger)
    busy.ledger.sweep()

    freed = FREED[first][ending == "rollback"]
    given: list[invariants.Delivery] = []

    def is_given() -> bool:
        dispatch(observer)
        given.extend(delivery for delivery in lease_all(observer, busy) if delivery.channel == busy.first)
        check_limits(observer)
        return len(given) >= freed and unsettled(observer) == 0

    until(is_given, "the freed slots to be used")
    assert len(given) == freed
    check_and_deliver_all(observer, busy.ledger)


def lease_all(conn: psycopg.Connection, busy: BusyQueue) -> list[invariants.Delivery]:
    deliveries = take(conn)
    for delivery in deliveries:
        busy.ledger.lease(delivery)
    return deliveries


@ENDINGS
def test_the_last_free_slot_is_given_once(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer)
    running = leased_by_channel(observer)[busy.first]
    observer.execute("SELECT channel_set(%s, p_max_concurrency => %s)", (busy.first, running + 1))
    dispatch(observer)
    one.execute("BEGIN")
    opened = do_dequeue(one, busy, 1)
    assert opened.result == {busy.first}
    with fail_on_lock_wait(two):
        met = do_dequeue(two, busy, 100)
    assert busy.first not in met.result
    end(one, ending)
    (opened.commit if ending == "commit" else opened.rollback)(busy.ledger)
    met.commit(busy.ledger)
    dispatch(observer)
    more = [delivery for delivery in lease_all(observer, busy) if delivery.channel == busy.first]
    assert len(more) == (0 if ending == "commit" else 1)
    check_and_deliver_all(observer, busy.ledger)


@ENDINGS
@pytest.mark.parametrize("change", ["pause", "resume"])
def test_pausing_holds_from_its_commit_on(database: SharedDatabase, change: str, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer)
    paused = change == "pause"
    observer.execute("SELECT channel_set(%s, p_paused => %s)", (busy.first, not paused))
    dispatch(observer)
    one.execute("BEGIN")
    one.execute("SELECT channel_set(%s, p_paused => %s)", (busy.first, paused))
    with fail_on_lock_wait(two):
        met = do_dequeue(two, busy, 3)
    assert (busy.first in met.result) == paused
    met.commit(busy.ledger)
    end(one, ending)
    dispatch(observer)
    is_paused = paused == (ending == "commit")
    assert (busy.first in {delivery.channel for delivery in lease_all(observer, busy)}) == (not is_paused)
    observer.execute("SELECT channel_set(%s, p_paused => FALSE)", (busy.first,))
    check_and_deliver_all(observer, busy.ledger)


@pytest.mark.parametrize("change", ["none", "extend", "complete", "retry", "sweep"])
@pytest.mark.parametrize("call", HOLDERS)
def test_an_old_snapshot_finishes_what_it_sees_or_must_retry(
    database: SharedDatabase, call: str, change: str
) -> None:
    """Holders of leases may use every isolation level. If the snapshot is outdated they get 40001, never a
    wrong answer. Extending and finishing do not conflict: an extend answers by what its snapshot sees, as
    if it had come first.
    """
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer, expired=change == "sweep")
    lease = busy.expired[busy.first] if change == "sweep" else busy.leases[busy.first][0]
    begin(one, "snapshot")
    see(one)
    meets = change == "sweep" or (change == "extend") == (call == "extend")
    if change == "none" or not meets:
        if change != "none":
            OPERATIONS[change](two, busy, lease).commit(busy.ledger)
        outcome = OPERATIONS[call](one, busy, lease)
        assert outcome.result == HOLDERS[call]
        end(one, "commit")
        outcome.commit(busy.ledger)
    else:
        OPERATIONS[change](two, busy, lease).commit(busy.ledger)
        with pytest.raises(psycopg.errors.SerializationFailure):
            OPERATIONS[call](one, busy, lease)
        end(one, "rollback")
    check_and_deliver_all(observer, busy.ledger)
