"""The orders of channels, and their pages."""

import time
from dataclasses import replace

import pytest

from lonnymq.monitor.order import Order, in_order, page_in_order
from lonnymq.monitor.state import QueueSnapshot
from tests.cli.snapshots import channel, snapshot

SMALL = [
    channel("acme", due=900, leased=1, oldest_due_ms=5_000),
    channel("bolt", due=5, weight=2.0, oldest_due_ms=9_000),
    channel("cafe", due=5, oldest_due_ms=100),
    channel("dock", due=30, blocked_by="rate", oldest_due_ms=50),
    channel("echo", due=40, blocked_by="concurrency", leased=3, oldest_due_ms=60),
    channel("fern", due=2, paused=True, blocked_by="paused"),
    channel("gold"),
]
SERVED = {"acme": 60, "bolt": 20, "cafe": 25, "echo": 3}
ORDERS = {
    # bolt has 10 per weight, cafe 25; hope is new, so its rate is not known; then those that do not compete
    Order.STARVED: "bolt cafe acme hope echo dock fern gold",
    Order.OLDEST: "bolt acme cafe echo dock hope fern gold",
    Order.BACKLOG: "acme echo dock cafe bolt fern hope gold",
    Order.BLOCKED: "fern echo dock acme cafe bolt hope gold",
    Order.NOISY: "acme cafe bolt echo hope dock fern gold",
    Order.DUE: "acme echo dock cafe bolt fern hope gold",
    Order.LEASED: "echo acme cafe bolt dock fern gold hope",
    Order.RATE: "acme cafe bolt echo dock fern gold hope",
    Order.NAME: "acme bolt cafe dock echo fern gold hope",
}


def many(channels: int) -> QueueSnapshot:
    """Many are equal, so that their names decide."""
    before = [channel(f"tenant-{n:06}", due=n % 97, oldest_due_ms=n % 31) for n in range(channels)]
    return snapshot(before, [replace(one, served=number % 13) for number, one in enumerate(before)])


@pytest.mark.parametrize("order", Order)
def test_orders(order: Order) -> None:
    after = [replace(one, served=SERVED.get(one.channel, 0)) for one in SMALL]
    found = snapshot(SMALL, [*after, channel("hope", due=1, oldest_due_ms=1)])
    assert " ".join(one.name for one in in_order(found, order)) == ORDERS[order]
    assert [one.name for one in in_order(found, order, "d")] == ["dock"]


def test_pages() -> None:
    found = many(2_000)
    for order in Order:
        everything = in_order(found, order)
        for offset in (0, 50, 1_000, 1_990):
            assert page_in_order(found, order, 50, offset) == everything[offset : offset + 50]
        some = in_order(found, order, "tenant-0012")
        assert len(some) == 100
        assert page_in_order(found, order, 5, 3, "tenant-0012") == some[3:8]


def test_the_first_of_100_000_channels_are_found_quickly() -> None:
    found = snapshot([channel(f"tenant-{n:06}", due=n % 97, oldest_due_ms=n % 31) for n in range(100_000)])
    assert found.noisy == frozenset()  # computed once per snapshot
    for order in Order:
        begin = time.process_time()
        assert len(page_in_order(found, order, 50)) == 50
        spent = time.process_time() - begin
        assert spent < 0.4, f"{order}: a tenth of a second on a machine that is idle"
