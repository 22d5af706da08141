"""A producer that does not commit: everyone else's calls cost and answer what they did."""

import pytest

from tests.database import Connect
from tests.judge import fold
from tests.plans.buffers import Meter
from tests.plans.rounds import Scene, dequeue
from tests.plans.sessions import Statistics, Watch, no_more
from tests.plans.states import create, tall


@pytest.mark.slow
@pytest.mark.parametrize("statistics", Statistics)
@pytest.mark.parametrize("messages", [1, 200_000])
def test_a_producer_left_open(connect: Connect, statistics: Statistics, messages: int) -> None:
    watch = Watch(connect, statistics)
    tall(watch.loader)
    scene = Scene.NARROW | Scene.WIDE | Scene.DRAINED
    before = watch.costs(scene)
    answers = watch.veteran.answers.copy()
    producer = connect()
    producer.execute("BEGIN")
    if messages == 1:
        create(producer, 1, 1, "c")
    else:
        create(producer, messages // 4, 10, "c")
        create(producer, messages // 4, 10, "c", -2)
        create(producer, messages // 2, messages // 2, "never seen ")
    watch.compare_first_round(before, scene)
    watch.conclude(before, scene, no_more)
    assert watch.veteran.answers == answers


@pytest.mark.xfail(reason="the first dequeue reads through all that is not committed, once a channel")
def test_a_line_that_an_open_transaction_stands_in(connect: Connect) -> None:
    """Between a message that waited and one that came later."""
    watch = Watch(connect, Statistics.EMPTY)
    loader, meter = watch.loader, watch.veteran
    costs = []
    for opened in (0, 20_000):
        create(loader, 10, 10, "c")
        producer = connect()
        producer.execute("BEGIN")
        create(producer, opened, 10, "c")
        create(loader, 10, 10, "c")
        fold(loader)
        costs.append(cost_of_two_dequeues(meter))
    assert costs[1] <= no_more("dequeue of 20, 10 of them urgent", costs[0]), costs


def cost_of_two_dequeues(meter: Meter) -> int:
    meter.forget()
    for _ in range(2):
        dequeue(meter, 10, "dequeue")
    return sum(meter.counted["dequeue"])
