"""What was served and cannot be vacuumed, because somebody holds an old snapshot, is in nobody's way."""

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import Delivery, dequeue, dispatch
from tests.plans.buffers import Meter
from tests.plans.rounds import HOUR, Scene
from tests.plans.sessions import BY_CHANCE, Statistics, Watch, no_more
from tests.plans.states import FAR, create, limit_channels, loaded, tall

MESSAGES = 100_000
KINDS = {
    "each at its time": Scene(0),
    "all at one time, under limits": Scene.ONE_TIME | Scene.LIMITED,
}

# An index of 20,000 messages more has a level more. 20 are looked up, and again if somebody had locked them.
DEEPER = 2 * 20


COMPLETE = "SELECT message_complete(s.id, l.token) FROM lease l CROSS JOIN unnest(l.stubs) s"


def complete(conn: psycopg.Connection, messages: list[Delivery]) -> None:
    done = conn.execute(
        "SELECT DISTINCT result FROM message_complete_many(%s, %s)",
        ([message.id for message in messages], [message.token for message in messages]),
    ).fetchall()
    assert done == [("completed",)]


def serve(
    conn: psycopg.Connection, messages: int, channels: int, dequeue_at: int | None, lease_ms: int = 1
) -> None:
    """Create, dispatch, dequeue and complete them, over the channels of a round."""
    for _ in range(messages // 1_000):
        create(conn, 1_000, channels, "c", dequeue_at)
        dispatch(conn)
        while taken := dequeue(conn, 1_000, lease_ms)[0]:
            complete(conn, taken)
            dispatch(conn)


def hold_a_snapshot(conn: psycopg.Connection) -> None:
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    conn.execute("SELECT COUNT(*) FROM tick")


@loaded
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
@pytest.mark.parametrize("kind", KINDS)
def test_dead_rows_under_a_held_snapshot(
    connect: Connect, statistics: Statistics, kind: str, load: float
) -> None:
    scene = KINDS[kind] | Scene.NARROW | Scene.WIDE | Scene.DRAINED
    watch = Watch(connect, statistics)
    tall(watch.loader, load)
    if Scene.LIMITED in scene:
        limit_channels(watch.loader, 50, "c", 20)
    before = watch.costs(scene)
    hold_a_snapshot(connect())
    serve(watch.loader, int(MESSAGES * load), 50, 0 if Scene.ONE_TIME in scene else None)
    watch.conclude(before, scene, no_more)


@pytest.mark.parametrize("dequeue_at", [None, 0], ids=["each at its time", "all at one time"])
def test_a_message_that_comes_back_to_before_the_dead(connect: Connect, dequeue_at: int | None) -> None:
    """It stands before all that was served since, and others stand behind."""
    watch = Watch(connect, Statistics.STALE)
    loader = watch.loader
    meter = Meter(connect())
    costs = []
    hold_a_snapshot(connect())
    for served in (0, 0, 20_000):  # a session's first calls read the catalogue
        create(loader, 10, 10, "c", dequeue_at)
        dispatch(loader)
        first = dequeue(loader, 10, HOUR)[0]
        serve(loader, served, 10, dequeue_at)
        create(loader, 10, 10, "c", dequeue_at)
        dispatch(loader)
        for message in first:
            loader.execute("SELECT message_retry(%s, %s)", (message.id, message.token))
        dispatch(loader)
        messages = meter.count("dequeue", f"message_dequeue(20, {HOUR})")
        assert {message["id"] for message in messages[:10]} == {message.id for message in first}
        assert len(messages) == 20
        costs.append(meter.counted["dequeue"][-1])
        dispatch(loader)
        loader.execute(COMPLETE)
    assert costs[2] <= 1.2 * costs[1] + DEEPER, costs


def test_several_stretches(connect: Connect) -> None:
    """Dead ones lie between the urgent and the usual, and between the usual and what is for later."""
    watch = Watch(connect, Statistics.STALE)
    loader = watch.loader
    meter = Meter(connect())
    create(loader, 10, 10, "c", FAR)
    costs = []
    hold_a_snapshot(connect())
    for served in (0, 0, 20_000):  # a session's first calls read the catalogue
        create(loader, 10, 10, "c")
        dispatch(loader)
        usual = dequeue(loader, 10, HOUR)[0]
        serve(loader, served, 10, None)
        serve(loader, served, 10, -1)
        for message in usual:
            loader.execute("SELECT message_retry(%s, %s)", (message.id, message.token))
        dispatch(loader)
        create(loader, 10, 10, "c", -2)
        dispatch(loader)
        messages = meter.count("dequeue", f"message_dequeue(20, {HOUR})")
        assert {message["id"] for message in messages[10:]} == {message.id for message in usual}
        costs.append(meter.counted["dequeue"][-1])
        dispatch(loader)
        loader.execute(COMPLETE)
    assert costs[2] <= 1.2 * costs[1] + DEEPER, costs


def test_leases_that_ended_a_moment_ago(connect: Connect) -> None:
    """What was leased, completed and would have run out by now is read once, not with every dispatch."""
    watch = Watch(connect, Statistics.STALE)
    loader = watch.loader
    meter = Meter(connect())
    hold_a_snapshot(connect())
    for _ in range(40):
        serve(loader, 1_000, 10, None, lease_ms=300)
        create(loader, 10, 10, "c")
        meter.count("dispatch", "dispatch()")
        complete(loader, dequeue(loader, 10, HOUR)[0])
    first, *rest = meter.counted["dispatch"][2:]  # a session's first calls read the catalogue
    assert max(rest) < first + 3_000, meter.counted["dispatch"]  # some dispatch meets what just ran out


LEVELS = ["READ COMMITTED", "REPEATABLE READ"]


def complete_next(conn: psycopg.Connection) -> None:
    dispatch(conn)
    complete(conn, dequeue(conn, 1, HOUR)[0])


@pytest.mark.parametrize("level", LEVELS)
def test_a_key_that_was_used_often(connect: Connect, level: str) -> None:
    """A create of the same key again, and one that finds it held, do not read who held it before."""
    watch = Watch(connect, Statistics.STALE)
    loader = watch.loader
    loader.execute("SELECT queue_set(p_dedupe_keep_ms => 0)")
    meter = Meter(connect())
    meter.conn.execute(f"SET default_transaction_isolation = '{level}'")
    call = "message_create('a', 'x', p_dedupe_key => 'k')"
    hold_a_snapshot(connect())
    costs = []
    for used in (10, 10, 1_000):  # a session's first calls read the catalogue
        for _ in range(used):
            loader.execute(f"SELECT {call}")
            complete_next(loader)
        loader.execute("SELECT pg_sleep(0.002)")
        meter.forget()
        assert [row["result"] for row in meter.count("create", call) + meter.count("duplicate", call)] == [
            *("created", "duplicate")
        ]
        complete_next(loader)
        costs.append(meter.costs())
    grown = [name for name in costs[1] if costs[2][name] > costs[1][name] + BY_CHANCE]
    assert not grown, costs


LEAVE = "INSERT INTO departure (channel, n) SELECT 'a', 1 FROM generate_series(1, 300)"


@pytest.mark.parametrize("is_writer_open", [False, True], ids=["", "and a writer is open"])
def test_a_full_channel_that_many_left(connect: Connect, is_writer_open: bool) -> None:
    """A create, with room and without, does not read of those who left before."""
    watch = Watch(connect, Statistics.STALE)
    loader = watch.loader
    loader.execute("SELECT channel_set('a', p_max_size => 2)")
    meter = Meter(connect())
    call = "message_create('a', 'x')"
    hold_a_snapshot(connect())
    if is_writer_open:
        writer = connect()
        writer.execute("BEGIN")
        writer.execute("SELECT message_create('other', 'x')")
    costs = []
    loader.execute(f"SELECT {call}")
    for left in (10, 10, 200):  # a session's first calls read the catalogue
        for _ in range(left):
            loader.execute("WITH c AS (UPDATE capacity SET size = size + 300) " + LEAVE)
            loader.execute(f"SELECT {call}")
            complete_next(loader)
        meter.forget()
        assert [row["result"] for row in meter.count("create", call) + meter.count("full", call)] == [
            *("created", "full")
        ]
        complete_next(loader)
        costs.append(meter.costs())
    grown = [name for name in costs[1] if costs[2][name] > costs[1][name] + BY_CHANCE]
    assert not grown, costs


def test_a_channel_that_all_left_at_once(connect: Connect) -> None:
    """A create takes some of the departures off, and not all."""
    watch = Watch(connect, Statistics.STALE)
    loader = watch.loader
    size = 20_000
    loader.execute("SELECT channel_set('a1', p_max_size => %s)", (size,))
    meter = Meter(connect())
    for _ in range(2):
        meter.count("create", "message_create('a1', 'x')")
    create(loader, size - 2, 1, "a")
    dispatch(loader)
    while taken := dequeue(loader, 1_000, HOUR)[0]:
        for message in taken:
            loader.execute("SELECT message_complete(%s, %s)", (message.id, message.token))
        dispatch(loader)
    left = loader.execute("SELECT COUNT(*) FROM departure").fetchone()
    assert left == (size,)
    meter.forget()
    (row,) = meter.count("create", "message_create('a1', 'x')")
    assert row["result"] == "created"
    assert loader.execute("SELECT COUNT(*) FROM departure").fetchone() == (size - 1_001,)
    assert loader.execute(
        "SELECT COUNT(*) FILTER (WHERE result = 'created'), COUNT(*) FILTER (WHERE result = 'full') FROM"
        " message_create_many(array_fill('a1'::TEXT, ARRAY[30000]), array_fill('x'::BYTEA, ARRAY[30000]))"
    ).fetchone() == (size - 1, 30_001 - size)
