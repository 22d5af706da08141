"""A dispatch costs what is new, and no call does more than its limit allows."""

import psycopg
import pytest

from tests.database import Connect
from tests.invariants import Delivery, dequeue, dispatch, drain
from tests.plans.buffers import Meter
from tests.plans.rounds import HOUR, until_ended
from tests.plans.sessions import SLACK, Comparison, Statistics
from tests.plans.states import create, dispatch_in_bulk, make_indexes_tall

PIECE = 100
FLOOD = 8_000


def cost(meter: Meter, limit: int) -> int:
    meter.forget()
    meter.count("dispatch", f"dispatch({limit})")
    return meter.costs()["dispatch"]


def create_in_one_channel(conn: psycopg.Connection, messages: int) -> None:
    conn.execute(
        "SELECT COUNT(*) FROM generate_series(1, %s) CROSS JOIN LATERAL message_create('c1', 'x')",
        (messages,),
    )


def cost_of(comparison: Comparison, messages: int, of: str) -> int:
    if of == "one channel":
        create_in_one_channel(comparison.loader, messages)
    else:
        create(comparison.loader, messages, messages, f"{of} {messages} ")
    if of == "channels that wait":
        dispatch(comparison.loader)
        create(comparison.loader, messages, messages, f"{of} {messages} ")
    counted = cost(comparison.veteran, 1_000)
    drain(comparison.loader, limit=10_000)
    return counted


@pytest.mark.cases(1)
@pytest.mark.parametrize("statistics", Statistics)
def test_a_dispatch_is_linear_in_what_is_new(connect: Connect, statistics: Statistics) -> None:
    comparison = Comparison(connect, statistics)
    for of in ("new channels", "channels that wait", "one channel"):
        few, more, many = (cost_of(comparison, messages, of) for messages in (10, 100, 1_000))
        assert more <= 10 * few + 100, (of, few, more, many)  # an index may have one more level by then
        assert many <= 20 * more, (of, few, more, many)  # the indexes grow


# How many index descents a message takes: each index may have one more level.
PIECE_GROWTH = 11 * PIECE + SLACK
SWEPT_GROWTH = 15 * PIECE + SLACK  # an expired lease is looked up, and its message returned and placed


@pytest.mark.cases(1)
@pytest.mark.parametrize("statistics", Statistics)
def test_a_dispatch_of_a_flood_is_bounded(connect: Connect, statistics: Statistics) -> None:
    """A part of a large load costs as much as a load of only that size."""
    comparison = Comparison(connect, statistics)
    make_indexes_tall(comparison.loader)
    costs = []
    for size in (PIECE, FLOOD):
        create(comparison.loader, size, size, f"flood {size} ")
        costs.append(cost(comparison.veteran, PIECE))
        dispatch_in_bulk(comparison.loader)
    assert costs[1] <= costs[0] + PIECE_GROWTH, costs


@pytest.mark.cases(1)
@pytest.mark.parametrize("statistics", Statistics)
def test_a_dispatch_of_a_late_commit_is_bounded(connect: Connect, statistics: Statistics) -> None:
    comparison = Comparison(connect, statistics)
    make_indexes_tall(comparison.loader)
    producer = connect()
    costs = []
    for size in (PIECE, FLOOD):
        producer.execute("BEGIN")
        create(producer, size, size, f"late {size} ")
        create(comparison.loader, 1, 1, "c")
        dispatch(comparison.loader)
        producer.execute("COMMIT")
        costs.append(cost(comparison.veteran, PIECE))
        dispatch_in_bulk(comparison.loader)
    assert costs[1] <= costs[0] + PIECE_GROWTH, costs


@pytest.mark.cases(1)
@pytest.mark.parametrize("statistics", Statistics)
def test_a_sweep_is_bounded(connect: Connect, statistics: Statistics) -> None:
    comparison = Comparison(connect, statistics)
    make_indexes_tall(comparison.loader)
    create(comparison.loader, FLOOD, FLOOD, "c")
    dispatch_in_bulk(comparison.loader)
    costs = []
    for size in (PIECE, FLOOD):
        messages: list[Delivery] = []
        while len(messages) < size:
            messages += dequeue(comparison.loader, size, HOUR)[0]
            dispatch_in_bulk(comparison.loader)
        ((end_at,),) = comparison.loader.execute(
            "UPDATE lease SET end_at = clock_ms() + 500 RETURNING end_at"
        ).fetchmany(1)
        until_ended(comparison.loader, end_at)
        costs.append(cost(comparison.veteran, PIECE))
        dispatch_in_bulk(comparison.loader)
    assert costs[1] <= costs[0] + SWEPT_GROWTH, costs


def test_a_dispatch_with_many_channels_due(connect: Connect) -> None:
    """There are no dequeues, so nothing moves."""
    comparison = Comparison(connect, Statistics.EMPTY)
    costs = []
    for channels in (2_000, 20_000):  # ready has as many entries as a dispatch reads
        create(comparison.loader, channels, channels, "due ")
        dispatch_in_bulk(comparison.loader)
        comparison.veteran.forget()
        for _ in range(5):
            create(comparison.loader, 1, 1, "due ")
            comparison.veteran.count("dispatch", "dispatch()")
        costs.append(comparison.veteran.costs()["dispatch"])
    assert costs[1] <= 2 * costs[0], costs
