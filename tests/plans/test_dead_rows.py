"""Dead rows that cannot be vacuumed, because somebody has an old snapshot, do not slow down any call."""

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import Delivery, dequeue, dispatch
from tests.plans.buffers import Meter
from tests.plans.rounds import HOUR, Workload
from tests.plans.sessions import SLACK, Comparison, Statistics, no_growth
from tests.plans.states import FAR, create, limit_channels, loaded, make_indexes_tall

MESSAGES = 100_000
KINDS = {
    "each at its time": Workload(0),
    "all at one time, under limits": Workload.ONE_TIME | Workload.LIMITED,
}

# With 20,000 more messages an index has one more level. 20 are looked up, twice if they were locked.
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
    """Create, dispatch, dequeue and complete messages, over the channels of a round."""
    for _ in range(messages // 1_000):
        create(conn, 1_000, channels, "c", dequeue_at)
        dispatch(conn)
        while taken := dequeue(conn, 1_000, lease_ms)[0]:
            complete(conn, taken)
            dispatch(conn)


def hold_a_snapshot(conn: psycopg.Connection) -> None:
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    conn.execute("SELECT COUNT(*) FROM tick")


@pytest.mark.cases(2)
@loaded
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
@pytest.mark.parametrize("kind", KINDS)
def test_dead_rows_under_a_held_snapshot(
    connect: Connect, statistics: Statistics, kind: str, load: float
) -> None:
    workload = KINDS[kind] | Workload.NARROW | Workload.WIDE | Workload.DRAINED
    comparison = Comparison(connect, statistics)
    make_indexes_tall(comparison.loader, load)
    if Workload.LIMITED in workload:
        limit_channels(comparison.loader, 50, "c", 20)
    before = comparison.costs(workload)
    hold_a_snapshot(connect())
    serve(comparison.loader, int(MESSAGES * load), 50, 0 if Workload.ONE_TIME in workload else None)
    comparison.check_no_growth(before, workload, no_growth)


@pytest.mark.parametrize("dequeue_at", [None, 0], ids=["each at its time", "all at one time"])
def test_a_message_that_comes_back_before_dead_rows(connect: Connect, dequeue_at: int | None) -> None:
    """It comes before all that was served since, and other messages wait behind it."""
    comparison = Comparison(connect, Statistics.STALE)
    loader = comparison.loader
    meter = Meter(connect())
    costs = []
    hold_a_snapshot(connect())
    for served in (0, 0, 20_000):  # the first calls of a session read the catalogue
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


def test_several_ranges(connect: Connect) -> None:
    """There are dead rows between urgent and ordinary messages, and between ordinary and scheduled ones."""
    comparison = Comparison(connect, Statistics.STALE)
    loader = comparison.loader
    meter = Meter(connect())
    create(loader, 10, 10, "c", FAR)
    costs = []
    hold_a_snapshot(connect())
    for served in (0, 0, 20_000):  # the first calls of a session read the catalogue
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
    """Messages that were leased and completed, and whose lease would have run out by now, are read once,
    not by every dispatch.
    """
    comparison = Comparison(connect, Statistics.STALE)
    loader = comparison.loader
    meter = Meter(connect())
    hold_a_snapshot(connect())
    for _ in range(40):
        serve(loader, 1_000, 10, None, lease_ms=300)
        create(loader, 10, 10, "c")
        meter.count("dispatch", "dispatch()")
        complete(loader, dequeue(loader, 10, HOUR)[0])
    first, *rest = meter.counted["dispatch"][2:]  # the first calls of a session read the catalogue
    assert max(rest) < first + 3_000, meter.counted["dispatch"]  # one dispatch reads what just ran out


LEVELS = ["READ COMMITTED", "REPEATABLE READ"]


def complete_next(conn: psycopg.Connection) -> None:
    dispatch(conn)
    complete(conn, dequeue(conn, 1, HOUR)[0])


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("level", "unique_while"), [*((level, "running") for level in LEVELS), ("READ COMMITTED", "waiting")]
)
def test_a_key_that_was_used_often(connect: Connect, level: str, unique_while: str) -> None:
    """A create that takes the key again, and one that finds it taken, do not read its earlier messages."""
    comparison = Comparison(connect, Statistics.STALE)
    loader = comparison.loader
    meter = Meter(connect())
    meter.conn.execute(f"SET default_transaction_isolation = '{level}'")
    call = f"message_create('a', 'x', p_dedupe_key => 'k', p_unique_while => '{unique_while}')"
    hold_a_snapshot(connect())
    costs = []
    # The first calls of a session read the catalogue. After 400 messages, the indexes have a second level.
    for used in (10, 400, 600):
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
    grown = [name for name in costs[1] if costs[2][name] > costs[1][name] + SLACK]
    assert not grown, costs


LEAVE = "INSERT INTO departure (channel, n) SELECT 'a', 1 FROM generate_series(1, 300)"


@pytest.mark.parametrize(
    "is_writer_open",
    [pytest.param(False, marks=pytest.mark.long), True],
    ids=["", "and a writer is open"],
)
def test_a_full_channel_that_many_left(connect: Connect, is_writer_open: bool) -> None:
    """A create, with room and without, does not read old departures."""
    comparison = Comparison(connect, Statistics.STALE)
    loader = comparison.loader
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
    for left in (10, 10, 200):  # the first calls of a session read the catalogue
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
    grown = [name for name in costs[1] if costs[2][name] > costs[1][name] + SLACK]
    assert not grown, costs


def test_a_channel_that_all_left_at_once(connect: Connect) -> None:
    """A create subtracts some of the departures, not all."""
    comparison = Comparison(connect, Statistics.STALE)
    loader = comparison.loader
    size = 5_000
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
