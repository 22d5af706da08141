"""While a producer does not commit, all other calls cost the same and give the same answers."""

from typing import LiteralString

import psycopg
import pytest

from tests import invariants
from tests.database import Connect
from tests.invariants import dispatch, drain
from tests.plans.rounds import Workload, dequeue, until_ended
from tests.plans.sessions import REPLANNED, Comparison, Statistics, no_growth
from tests.plans.states import FAR, create, dispatch_in_bulk, make_indexes_tall


@pytest.mark.cases(1)
@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
@pytest.mark.parametrize(
    "messages", [20_000, *(pytest.param(other, marks=pytest.mark.long) for other in (1, 200_000))]
)
def test_a_producer_left_open(connect: Connect, statistics: Statistics, messages: int) -> None:
    comparison = Comparison(connect, statistics)
    make_indexes_tall(comparison.loader, max(0.1, messages / 200_000))
    workload = Workload.NARROW | Workload.WIDE | Workload.DRAINED
    before = comparison.costs(workload)
    answers = comparison.veteran.answers.copy()
    producer = connect()
    producer.execute("BEGIN")
    if messages == 1:
        create(producer, 1, 1, "c")
    else:
        create(producer, messages // 4, 10, "c")
        create(producer, messages // 4, 10, "c", -2)
        create(producer, messages // 2, messages // 2, "never seen ")
    comparison.compare_first_round(before, workload)
    comparison.check_no_growth(before, workload, no_growth)
    assert comparison.veteran.answers == answers


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("limit", "backlog"),
    [(1, 30), (10, 10), *(pytest.param(*few, marks=pytest.mark.long) for few in ((1, 10), (10, 30)))],
)
@pytest.mark.parametrize("is_dispatched", [False, True], ids=["new", "in its place"])
def test_a_line_with_messages_of_an_open_transaction(
    connect: Connect, limit: int, backlog: int, *, is_dispatched: bool
) -> None:
    """Between messages that waited and one that came later."""
    comparison = Comparison(connect, Statistics.EMPTY)
    loader, meter = comparison.loader, comparison.veteran
    create(loader, 20_000, 10, "tall ", FAR)
    dispatch_in_bulk(loader)
    costs = []
    for opened in (0, 20_000):
        leave_open_between(connect(), loader, backlog, opened, is_dispatched=is_dispatched)
        meter.forget()
        for _ in range((backlog + 10) // limit):
            dequeue(meter, limit, "dequeue")
            dispatch(loader)  # moves the floor past dead rows that cannot be vacuumed
        costs.append(sum(meter.counted["dequeue"]))
    assert costs[1] <= 1.2 * costs[0] + REPLANNED, costs


@pytest.mark.cases(3)
@pytest.mark.parametrize("is_dispatched", [False, True], ids=["new", "in its place"])
@pytest.mark.parametrize("taken", [0, 20, 40], ids=["none taken", "half taken", "all taken"])
def test_what_was_open_comes_in_its_place(connect: Connect, taken: int, *, is_dispatched: bool) -> None:
    """Once it is committed, its messages and those around them come once each and in order."""
    producer, loader = connect(), connect()
    create(loader, 10, 10, "c")
    assert len(drain(loader)) == 10
    leave_open_between(producer, loader, 30, 2_000, is_dispatched=is_dispatched)
    served = invariants.dequeue(loader, taken)[0] if taken else []
    producer.execute("COMMIT")
    places: dict[int, tuple[int, int]] = {
        row[0]: (row[1], row[0]) for row in loader.execute("SELECT id, dequeue_at FROM message")
    }
    rest = drain(loader)
    assert sorted(message.id for message in [*served, *rest]) == sorted(places)
    for channel in {message.channel for message in rest}:
        came = [places[message.id] for message in rest if message.channel == channel]
        assert came == sorted(came)


def leave_open_between(
    producer: psycopg.Connection,
    loader: psycopg.Connection,
    backlog: int,
    opened: int,
    *,
    is_dispatched: bool,
) -> None:
    """In ten channels: a backlog, messages that a producer does not commit, and one later message each."""
    create(loader, backlog, 10, "c")
    if is_dispatched:
        dispatch(loader)
    until_ended(loader, scalar(loader, "SELECT at FROM tick"))  # so that the next messages have a later time
    producer.execute("BEGIN")
    create(producer, opened, 10, "c")
    create(loader, 10, 10, "c")
    dispatch(loader)


def scalar(conn: psycopg.Connection, query: LiteralString) -> int:
    ((value,),) = conn.execute(query).fetchall()
    assert isinstance(value, int)
    return value
