"""A dispatch costs what is new, and no call does more than it was allowed to."""

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import Delivery, dequeue, dispatch, drain
from tests.plans.buffers import Meter
from tests.plans.rounds import HOUR, until_ended
from tests.plans.sessions import BY_CHANCE, Statistics, Watch
from tests.plans.states import create, dispatch_in_bulk, tall

PIECE = 100
FLOOD = 20_000


def cost(meter: Meter, limit: int) -> int:
    meter.forget()
    meter.count("dispatch", f"dispatch({limit})")
    return meter.costs()["dispatch"]


def create_in_one_channel(conn: psycopg.Connection, messages: int) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM generate_series(1, %s) CROSS JOIN LATERAL message_create('c1', 'x')",
        (messages,),
    )


def cost_of(watch: Watch, messages: int, of: str) -> int:
    if of == "one channel":
        create_in_one_channel(watch.loader, messages)
    else:
        create(watch.loader, messages, messages, f"{of} {messages} ")
    if of == "channels that wait":
        dispatch(watch.loader)
        create(watch.loader, messages, messages, f"{of} {messages} ")
    counted = cost(watch.veteran, 1_000)
    drain(watch.loader, limit=10_000)
    return counted


@pytest.mark.parametrize("statistics", Statistics)
def test_a_dispatch_is_linear_in_what_is_new(connect: Connect, statistics: Statistics) -> None:
    watch = Watch(connect, statistics)
    for of in ("new channels", "channels that wait", "one channel"):
        few, more, many = (cost_of(watch, messages, of) for messages in (10, 100, 1_000))
        assert more <= 10 * few, (of, few, more, many)
        assert many <= 20 * more, (of, few, more, many)  # indexes grow with it


# How often a message goes down an index: each may have got one level higher.
MORE = 11 * PIECE + BY_CHANCE
MORE_SWEPT = 15 * PIECE + BY_CHANCE  # a lease that ran out is looked up, put back and placed


@pytest.mark.parametrize("statistics", Statistics)
def test_a_dispatch_of_a_flood_is_bounded(connect: Connect, statistics: Statistics) -> None:
    """A piece of a flood costs what it costs where there is no more than that piece."""
    watch = Watch(connect, statistics)
    tall(watch.loader)
    costs = []
    for size in (PIECE, FLOOD):
        create(watch.loader, size, size, f"flood {size} ")
        costs.append(cost(watch.veteran, PIECE))
        dispatch_in_bulk(watch.loader)
    assert costs[1] <= costs[0] + MORE, costs


@pytest.mark.parametrize("statistics", Statistics)
def test_a_dispatch_of_a_late_commit_is_bounded(connect: Connect, statistics: Statistics) -> None:
    watch = Watch(connect, statistics)
    tall(watch.loader)
    producer = connect()
    costs = []
    for size in (PIECE, FLOOD):
        producer.execute("BEGIN")
        create(producer, size, size, f"late {size} ")
        create(watch.loader, 1, 1, "c")
        dispatch(watch.loader)
        producer.execute("COMMIT")
        costs.append(cost(watch.veteran, PIECE))
        dispatch_in_bulk(watch.loader)
    assert costs[1] <= costs[0] + MORE, costs


@pytest.mark.parametrize("statistics", Statistics)
def test_a_sweep_is_bounded(connect: Connect, statistics: Statistics) -> None:
    watch = Watch(connect, statistics)
    tall(watch.loader)
    create(watch.loader, FLOOD, FLOOD, "c")
    dispatch_in_bulk(watch.loader)
    costs = []
    for size in (PIECE, FLOOD):
        messages: list[Delivery] = []
        while len(messages) < size:
            messages += dequeue(watch.loader, min(size, 10_000), HOUR)[0]
            dispatch_in_bulk(watch.loader)
        ((end_at,),) = watch.loader.execute(
            "UPDATE lease SET end_at = clock_ms() + 500 RETURNING end_at"
        ).fetchmany(1)
        until_ended(watch.loader, end_at)
        costs.append(cost(watch.veteran, PIECE))
        dispatch_in_bulk(watch.loader)
    assert costs[1] <= costs[0] + MORE_SWEPT, costs


def test_a_dispatch_with_many_channels_due(connect: Connect) -> None:
    """Nobody dequeues, so nothing moves."""
    watch = Watch(connect, Statistics.EMPTY)
    costs = []
    for channels in (2_000, 50_000):  # as much is next to be served as a dispatch looks at
        create(watch.loader, channels, channels, "due ")
        dispatch_in_bulk(watch.loader)
        watch.veteran.forget()
        for _ in range(5):
            create(watch.loader, 1, 1, "due ")
            watch.veteran.count("dispatch", "dispatch()")
        costs.append(watch.veteran.costs()["dispatch"])
    assert costs[1] <= 2 * costs[0], costs
