"""Transactions that are left open for long do not affect other sessions."""

import psycopg
import pytest

from tests import invariants
from tests.database import unique_name
from tests.isolation.busy_queue import BusyQueue, build, create, do_channel_set, do_dequeue, see
from tests.isolation.shared_database import (
    Ledger,
    SharedDatabase,
    check_and_deliver_all,
    check_limits,
    deliver_all,
    dispatch,
    end,
    fail_on_lock_wait,
    take,
    until,
    value,
    wait_until_expired,
)

ENDINGS = pytest.mark.parametrize("ending", ["commit", "rollback"])

# A consumer and a producer: four transactions per round.
WORK = """
DO $$
DECLARE
    v RECORD;
    v_asked INT;
BEGIN
    FOR i IN 1 .. {rounds} LOOP
        PERFORM message_create('{channel} ' || i % 20, 'work');
        COMMIT;
        FOR v_asked IN 1 .. {asks} LOOP
            PERFORM dispatch();
            COMMIT;
            SELECT * INTO v FROM message_dequeue(1, 60000) LIMIT 1;
            COMMIT;
            EXIT WHEN v.id IS NOT NULL;
        END LOOP;
        IF v.id IS NULL THEN
            RAISE 'round % was served nothing', i;
        ELSIF message_complete(v.id, v.token) <> 'completed' THEN
            RAISE 'round % did not complete', i;
        END IF;
        COMMIT;
    END LOOP;
END $$"""


# What the search for expired leases adds to a dispatch, once per second; it may be in only one of the counts.
SWEEP = 60


def work(conn: psycopg.Connection, operations: int, channel: str = "busy", asks: int = 1) -> None:
    conn.execute(WORK.format(rounds=operations // 4, channel=channel, asks=asks))


def blocks(conn: psycopg.Connection, call: str) -> int:
    """How many pages a call touches. It is rolled back, so that it can be counted again."""
    conn.execute("BEGIN")
    plan = value(conn, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {call}")[0]["Plan"]
    conn.execute("ROLLBACK")
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def cost(conn: psycopg.Connection, ledger: Ledger) -> dict[str, int]:
    """The pages that a dispatch with something to do, and the dequeue after it, touch. The lowest of seven:
    after much work, some dispatches also sum up what was served.
    """
    costs: dict[str, list[int]] = {"dispatch": [], "dequeue": []}
    for _ in range(7):
        create(conn, ledger, "measured", "measured")
        costs["dispatch"].append(blocks(conn, "dispatch()"))
        dispatch(conn)
        costs["dequeue"].append(blocks(conn, "message_dequeue(10)"))
        dispatch(conn)  # which moves back what was rolled back
        serve(conn, ledger)
    return {name: min(measured) for name, measured in costs.items()}


def serve(conn: psycopg.Connection, ledger: Ledger) -> None:
    """Deliver and complete what is available now."""
    for delivery in take(conn):
        ledger.lease(delivery)
        assert value(conn, "SELECT message_complete(%s, %s)", delivery.id, delivery.token) == "completed"
        ledger.finish(delivery.id)


@ENDINGS
def test_dequeue_left_open(database: SharedDatabase, ending: str) -> None:
    """After 2,000 operations of other sessions, theirs cost the same, and its own channel goes on."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ledger = Ledger()
    cost(two, ledger)  # the first calls of a session read the catalogue
    for number in range(3):
        create(observer, ledger, "held", f"held {number}", number)
    dispatch(observer)
    one.execute("BEGIN")
    opened = do_dequeue(one, BusyQueue(ledger, "", ""), 1)
    assert opened.result == {"held"}
    create(observer, ledger, "held", "an urgent one, meanwhile", -1)
    with fail_on_lock_wait(two):
        before = cost(two, ledger)
        work(two, 2_000)
        after = cost(two, ledger)
    assert after["dequeue"] <= 2 * before["dequeue"], (before, after)
    assert after["dispatch"] <= 2 * before["dispatch"] + SWEEP, (before, after)
    end(one, ending)
    (opened.commit if ending == "commit" else opened.rollback)(ledger)
    deliver_all(observer, ledger, but=set(ledger.leases))
    check_and_deliver_all(observer, ledger)


@ENDINGS
def test_complete_of_1000_expired_leases_left_open(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ledger = Ledger()
    for channel, count in (("mine", 1_000), ("theirs", 50)):
        contents = [f"{channel} {number}".encode() for number in range(count)]
        rows = observer.execute(
            "SELECT id FROM message_create_many(%s, %s)", ([channel] * count, contents)
        ).fetchall()
        for (message_id,), content in zip(rows, contents, strict=True):
            ledger.create(message_id, content)
    dispatch(observer)
    leases: list[invariants.Delivery] = []
    while len(leases) < 1_050:
        leases += take(observer, 1_050, lease_ms=1_000)
        dispatch(observer)
    ledger.expired = {delivery.id: delivery.token for delivery in leases}
    wait_until_expired(observer, leases)
    mine = [delivery for delivery in leases if delivery.channel == "mine"]
    assert len(mine) == 1_000
    one.execute("BEGIN")
    results = one.execute(
        "SELECT result FROM message_complete_many(%s, %s)",
        ([delivery.id for delivery in mine], [delivery.token for delivery in mine]),
    ).fetchall()
    assert results == [("completed",)] * 1_000
    with fail_on_lock_wait(two):
        served: list[invariants.Delivery] = []

        def is_served() -> bool:
            dispatch(two)
            served.extend(take(two))
            return len(served) >= 50

        until(is_served, "the others' leases to be swept and served")
    assert {delivery.channel for delivery in served} == {"theirs"}
    for delivery in served:
        ledger.end_lease(delivery.id)
        ledger.used[delivery.id] += 1
        ledger.lease(delivery)
    work(two, 400)
    end(one, ending)
    if ending == "commit":
        for delivery in mine:
            ledger.finish(delivery.id)
    check_and_deliver_all(observer, ledger)


@pytest.mark.slow
@pytest.mark.parametrize("channels", [10_000, pytest.param(200_000, marks=pytest.mark.long)])
@ENDINGS
def test_producer_of_many_channels_left_open(database: SharedDatabase, ending: str, channels: int) -> None:
    """Calls of others cost no more. Once it is committed, all of it is served, in bounded steps."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ledger = Ledger()
    cost(two, ledger)
    before = cost(two, ledger)
    one.execute("BEGIN")
    made = 0
    for start in range(0, channels, 10_000):
        names = [f"bulk {number}" for number in range(start, start + 10_000)]
        made += value(one, "SELECT COUNT(*) FROM message_create_many(%s, %s)", names, [b"bulk"] * len(names))
    assert made == channels
    with fail_on_lock_wait(two):
        during = cost(two, ledger)
        work(two, 1_000)
        later = cost(two, ledger)
    for costs in (during, later):
        assert costs["dequeue"] <= 2 * before["dequeue"], (before, during, later)
        assert costs["dispatch"] <= 2 * before["dispatch"] + SWEEP, (before, during, later)
    check_and_deliver_all(observer, ledger)
    end(one, ending)
    two.execute("SET statement_timeout = '10s'")
    calls = dispatch(two)
    if ending == "rollback":
        assert calls < 5
        assert take(two) == []
        return
    assert calls >= channels // 1_000, "a call places a thousand messages at most"
    served: set[int] = set()
    while dispatch(two) and (batch := take(two, 10_000)):
        ids = [delivery.id for delivery in batch]
        assert served.isdisjoint(ids), "invariant 4: delivered twice"
        served.update(ids)
        two.execute(
            "SELECT message_complete_many(%s, %s)", (ids, [delivery.token for delivery in batch])
        ).fetchall()
    two.execute("RESET statement_timeout")
    assert len(served) == channels
    check_and_deliver_all(observer, ledger)


@ENDINGS
def test_channel_set_left_open(database: SharedDatabase, ending: str) -> None:
    """The old policy is valid for all until the commit, and others can set the policies of other channels."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ledger = Ledger()
    busy = BusyQueue(ledger, "busy 1", "busy 2")
    one.execute("BEGIN")
    one.execute("SELECT channel_set('busy 1', p_paused => TRUE)")
    with fail_on_lock_wait(two):
        work(two, 1_000)
        do_channel_set(two, busy, ("busy 2", {"max_concurrency": 3})).commit(ledger)
        work(two, 400)
    end(one, ending)
    for channel in ("busy 1", "busy 2"):
        create(observer, ledger, channel, f"after: {channel}")
    dispatch(observer)
    expected = {"busy 2"} if ending == "commit" else {"busy 1", "busy 2"}
    taken = do_dequeue(observer, busy, 100)
    assert taken.result == expected
    taken.commit(ledger)
    observer.execute("SELECT channel_set('busy 1', p_paused => FALSE)")
    check_and_deliver_all(observer, ledger)


@ENDINGS
def test_producer_left_prepared(database: SharedDatabase, ending: str) -> None:
    """A prepared transaction stays open for all sessions, also after many dispatches."""
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ledger, prepared = Ledger(), Ledger()
    name = unique_name("producer")
    one.execute("BEGIN")
    for channel in ("busy 1", "alone"):
        create(one, prepared, channel, f"prepared: {channel}")
    one.execute(f"PREPARE TRANSACTION '{name}'")
    try:
        with fail_on_lock_wait(two):
            work(two, 1_200)
            dispatch(two)
            assert take(two) == []
    finally:
        one.execute(f"{ending} PREPARED '{name}'")
    if ending == "commit":
        ledger.contents, ledger.used = prepared.contents, prepared.used
    check_and_deliver_all(observer, ledger)


@ENDINGS
def test_dequeue_left_prepared(database: SharedDatabase, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    busy = build(observer)
    name = unique_name("consumer")
    one.execute("BEGIN")
    opened = do_dequeue(one, busy, 1)
    one.execute(f"PREPARE TRANSACTION '{name}'")
    try:
        with fail_on_lock_wait(two):
            met = do_dequeue(two, busy, 100)
            met.commit(busy.ledger)
            dispatch(two)
            serve(two, busy.ledger)
            work(two, 400)
    finally:
        one.execute(f"{ending} PREPARED '{name}'")
    (opened.commit if ending == "commit" else opened.rollback)(busy.ledger)
    check_and_deliver_all(observer, busy.ledger)


@ENDINGS
@pytest.mark.parametrize("limited", ["unlimited", "limited"])
def test_complete_left_prepared_past_the_lease(database: SharedDatabase, limited: str, ending: str) -> None:
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    ledger = Ledger()
    name = unique_name("finisher")
    if limited == "limited":
        observer.execute("SELECT channel_set('slow', p_max_concurrency => 1)")
    message_id = create(observer, ledger, "slow", "the first")
    dispatch(observer)
    (lease,) = take(observer, 1, lease_ms=1)
    create(observer, ledger, "slow", "the second")
    wait_until_expired(observer, [lease])
    one.execute("BEGIN")
    assert value(one, "SELECT message_complete(%s, %s)", lease.id, lease.token) == "completed"
    one.execute(f"PREPARE TRANSACTION '{name}'")
    try:
        with fail_on_lock_wait(two):
            dispatch(two)
            serve(two, ledger)
            assert len(ledger.contents) == (2 if limited == "limited" else 1)
            work(two, 200, channel="others")
            check_limits(observer)
    finally:
        one.execute(f"{ending} PREPARED '{name}'")
    ledger.expired[message_id] = lease.token
    if ending == "commit":
        ledger.finish(message_id)
    check_and_deliver_all(observer, ledger)


@pytest.mark.cases(2)
@ENDINGS
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_snapshot_held(database: SharedDatabase, level: str, ending: str) -> None:
    """As by a report or a backup: dead rows stay, but cost no time. Its transaction may still create and
    finish.
    """
    observer, one, two = database.session("observer"), database.session("one"), database.session("two")
    cost(two, Ledger())
    busy = build(observer)
    one.execute(f"BEGIN ISOLATION LEVEL {level}")
    seen = see(one)
    deliver_all(two, busy.ledger, but=set(busy.ledger.leases))
    before = cost(two, busy.ledger)
    work(two, 2_000)
    after = cost(two, busy.ledger)
    assert after["dequeue"] <= 2 * before["dequeue"], (before, after)
    assert after["dispatch"] <= 2 * before["dispatch"] + SWEEP, (before, after)
    assert see(one) == seen
    mine = Ledger()
    create(one, mine, busy.first, "from an old snapshot")
    lease = busy.leases[busy.first][0]
    assert value(one, "SELECT message_complete(%s, %s)", *lease) == "completed"
    end(one, ending)
    if ending == "commit":
        busy.ledger.finish(lease.id)
        busy.ledger.contents |= mine.contents
        busy.ledger.used |= mine.used
    check_and_deliver_all(observer, busy.ledger)
