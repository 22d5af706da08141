"""Who was served at each poll."""

import pytest

from lonnymq.monitor.ribbon import Ribbon
from lonnymq.monitor.state import ChannelTable, QueueSnapshot
from tests.cli.snapshots import AT, channel, queue


class Polls:
    """Polls that read some channels each, and the whole queue."""

    def __init__(self) -> None:
        self._table = ChannelTable()

    def poll(self, *, total: int | None = None, **served: int) -> QueueSnapshot:
        table = self._table
        table.begin_poll()
        table.read([channel(name, served=count) for name, count in served.items()], float(table.poll))
        found = None if total is None else queue(served=total)
        return table.snapshot(found, float(table.poll), AT + 1000 * table.poll)


def test_shares_of_each_poll() -> None:
    polls, ribbon = Polls(), Ribbon(length=3, top=2)
    ribbon.add(polls.poll(total=0, acme=0, bolt=0, cafe=0))
    (first,) = ribbon.columns()
    assert (first.served, first.shares, first.others) == (0, [], 0)
    ribbon.add(polls.poll(total=100, acme=60, bolt=30, cafe=10))
    same = polls.poll(total=200, acme=60, bolt=30, cafe=10)  # ninety of it are of channels that nobody read
    ribbon.add(same)
    ribbon.add(same)
    _, second, third = ribbon.columns()
    assert (second.poll, second.at, second.served) == (2, AT + 2000, 100)
    assert second.shares == [("acme", 0.6), ("bolt", 0.3)]
    assert second.others == pytest.approx(0.1)
    assert (third.served, third.shares, third.others) == (100, [("acme", 0), ("bolt", 0)], 1)
    ribbon.add(polls.poll(total=300))  # who got these hundred is not known yet
    assert ribbon.columns()[-1].poll == third.poll


def test_a_channel_that_is_read_rarely_was_served_evenly() -> None:
    polls, ribbon = Polls(), Ribbon()
    ribbon.add(polls.poll(acme=0, rare=0))
    ribbon.add(polls.poll(acme=10))
    assert ribbon.columns()[-1].shares == [("acme", 1.0)]
    ribbon.add(polls.poll(acme=20))
    ribbon.add(polls.poll(acme=30, rare=90))
    assert [column.served for column in ribbon.columns()] == [0, 40, 40, 40]
    assert ribbon.columns()[1].shares == [("acme", 0.25), ("rare", 0.75)]


def test_places_are_stable() -> None:
    polls, ribbon = Polls(), Ribbon(length=3, top=3)
    ribbon.add(polls.poll(a=0, b=0, c=0, d=0))
    ribbon.add(polls.poll(a=30, b=20, c=10, d=0))
    assert ribbon.channels == ["a", "b", "c"]
    ribbon.add(polls.poll(a=30, b=50, c=60, d=0))
    assert ribbon.channels == ["a", "b", "c"], "others got more, but each keeps its place"
    ribbon.add(polls.poll(a=30, b=60, c=90, d=20))
    assert ribbon.channels == ["a", "b", "c"]
    ribbon.add(polls.poll(a=30, b=80, c=95, d=30))
    assert ribbon.channels == ["d", "b", "c"], "a was not served for a while, and d has its place"
    for _ in range(3):
        ribbon.add(polls.poll(a=30, b=80, c=95, d=30))
    assert ribbon.channels == [], "nobody was served"


def test_a_channel_that_was_deleted_and_created_again() -> None:
    polls, ribbon = Polls(), Ribbon()
    ribbon.add(polls.poll(acme=100))
    ribbon.add(polls.poll(acme=120))
    ribbon.add(polls.poll(acme=5))
    ribbon.add(polls.poll(acme=15))
    assert [column.served for column in ribbon.columns()] == [0, 20, 0, 10]


def test_a_new_channel_does_not_replace_an_equal_one() -> None:
    polls, ribbon = Polls(), Ribbon(top=1)
    ribbon.add(polls.poll(a=0, b=0))
    ribbon.add(polls.poll(a=0, b=10))
    ribbon.add(polls.poll(a=10, b=10))
    assert ribbon.channels == ["b"]
