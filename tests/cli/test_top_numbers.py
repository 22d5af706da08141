"""The numbers of `lonnymq top`: rates, shares, and the order of channels."""

import doctest
import importlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lonnymq.cli.top.sort import Sort
from lonnymq.cli.top.sparkline import BLOCKS, sparkline
from lonnymq.cli.top.view import SORT_KEYS, ViewState, sorted_channels
from lonnymq.commands import ChannelStatistics
from lonnymq.monitor.fairness import Standing, standing
from lonnymq.monitor.rates import POLLS_COMPARED, POLLS_KEPT, Sample, ServedHistory
from lonnymq.monitor.state import ChannelTable
from tests.cli.snapshots import AT, channel, queue, snapshot

rates = st.floats(0, 1e6)
names = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=3)


@pytest.mark.parametrize(
    "module",
    [
        "monitor.budget",
        "monitor.explanations",
        "monitor.fairness",
        "monitor.noise",
        "monitor.rates",
        "cli.top.sparkline",
    ],
)
def test_the_examples_in_the_code(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"lonnymq.{module}")).failed == 0


def test_one_sample_gives_no_rate() -> None:
    assert ServedHistory().rate is None
    assert ServedHistory().plus(Sample(1, 5.0, 100)).rate is None


def test_a_rate_is_averaged_over_the_last_polls() -> None:
    history = ServedHistory()
    for poll in range(1, 16):
        history = history.plus(Sample(poll, float(poll), 1000 if poll < 5 else 1000 + 2 * (poll - 4)))
    assert (history.served, history.seconds, history.rate) == (2 * POLLS_COMPARED, POLLS_COMPARED, 2.0)


def test_the_rate_of_a_channel_that_is_read_rarely_is_that_of_its_last_two_samples() -> None:
    history = ServedHistory()
    for poll in (1, 41, 81):
        history = history.plus(Sample(poll, float(poll), poll * 3))
    assert (len(history.samples), history.rate) == (2, 3.0)
    assert history.trend(81, 5) == [3.0] * 5
    assert history.trend(83, 5) == [3.0, 3.0, 3.0, None, None]


def test_a_deleted_channel_starts_over() -> None:
    history = ServedHistory().plus(Sample(1, 1.0, 50)).plus(Sample(2, 2.0, 60)).plus(Sample(3, 3.0, 4))
    assert (len(history.samples), history.rate) == (1, None)


def test_a_second_sample_of_one_poll_replaces_the_first() -> None:
    history = ServedHistory().plus(Sample(1, 1.0, 0)).plus(Sample(2, 2.0, 5)).plus(Sample(2, 3.0, 8))
    assert [sample.served for sample in history.samples] == [0, 8]


def test_a_channel_is_backlogged_if_it_was_at_every_poll() -> None:
    history = ServedHistory().plus(Sample(1, 1.0, 0, is_backlogged=True))
    assert history.is_backlogged
    interrupted = history.plus(Sample(2, 2.0, 1, is_backlogged=False))
    for poll in range(3, 3 + POLLS_COMPARED):
        interrupted = interrupted.plus(Sample(poll, float(poll), poll, is_backlogged=True))
        assert interrupted.is_backlogged is (poll == 2 + POLLS_COMPARED + 1)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 1000)), min_size=1, max_size=40))
def test_only_samples_of_the_last_polls_are_kept(steps: list[tuple[int, int]]) -> None:
    history, poll, served = ServedHistory(), 0, 0
    for step, more in steps:
        poll, served = poll + step, served + more
        history = history.plus(Sample(poll, poll / 2, served))
    polls = [sample.poll for sample in history.samples]
    assert polls == sorted(set(polls))
    assert polls[-1] == poll
    assert all(kept > poll - POLLS_KEPT for kept in polls[1:-1])
    assert len(history.samples) > 1 or len(steps) == 1
    trend = history.trend(poll)
    assert len(trend) == POLLS_KEPT
    known = [rate for rate in trend if rate is not None]
    assert all(rate >= 0 for rate in known)
    assert trend == [None] * (POLLS_KEPT - len(known)) + known


def test_without_competing_channels_everything_is_fair() -> None:
    assert standing(1000, 1, None, can_lack=True) is Standing.FAIR
    current = snapshot([channel("a"), channel("b")], [channel("a", served=60), channel("b", served=40)])
    assert (current.fair, current.competing, current.jain, current.misallocated) == (None, 0, 1, 0)


def test_a_difference_of_a_few_messages_is_ignored() -> None:
    assert standing(2, 10, 0.05, can_lack=False) is Standing.FAIR
    assert standing(3, 10, 0.05, can_lack=False) is Standing.ABOVE
    assert standing(0, 10, 0.2, can_lack=True) is Standing.FAIR
    assert standing(124, 10, 10, can_lack=True) is Standing.FAIR
    assert standing(126, 10, 10, can_lack=True) is Standing.ABOVE
    assert standing(74, 10, 10, can_lack=True) is Standing.BELOW
    assert standing(74, 10, 10, can_lack=False) is Standing.FAIR


def test_shares() -> None:
    """A channel that is served at its rate is not held back at some polls, and still does not compete. Nor
    does one whose backlog is small.
    """
    limits = {"due": 5_000, "rate": "50/s"}
    current = snapshot(
        [
            channel("greedy", due=9_000),
            channel("starved", due=9_000),
            channel("modest"),
            channel("limited", **limits),
            channel("paused", due=5, paused=True),
            channel("busy", due=3),
        ],
        [
            channel("greedy", due=9_000, served=700),
            channel("starved", due=9_000, served=150, oldest_due_ms=2_000),
            channel("modest", served=60),
            channel("limited", **limits, served=50),
            channel("paused", due=5, paused=True),
            channel("busy", due=3, served=40),
        ],
    )
    of = current.channels
    assert (current.total, current.competing) == (1000, 2)
    assert current.fair == pytest.approx((1000 - 60 - 50 - 43) / 2)
    expected = {"greedy": "share", "starved": "share", "modest": "demand", "limited": "limit"}
    expected |= {"paused": "demand", "busy": "demand"}
    bounds = {name: current.entitlement(one) for name, one in of.items()}
    assert {name: str(found.bound_by) for name, found in bounds.items() if found} == expected
    assert [current.share(of[name]) for name in ("greedy", "starved", "modest")] == [0.7, 0.15, 0.06]
    assert [current.entitled_share(of[name]) for name in ("limited", "modest")] == [0.05, 0.06]
    assert current.of_fair(of["greedy"]) == pytest.approx(700 / 423.5)
    shown = [current.standing(of[name]) for name in ("greedy", "starved", "modest", "limited", "busy")]
    assert shown == [Standing.ABOVE, Standing.BELOW, Standing.FAIR, Standing.FAIR, Standing.FAIR]
    assert current.misallocated == pytest.approx((423.5 - 150 - 1) / 1000)
    waited_shortly = replace(of["starved"], stats=replace(of["starved"].stats, oldest_due_ms=1_999))
    assert current.standing(waited_shortly) is Standing.FAIR


def test_a_share_goes_by_weight() -> None:
    current = snapshot(
        [channel("heavy", due=900, weight=3.0), channel("light", due=900)],
        [channel("heavy", due=900, weight=3.0, served=300), channel("light", due=900, served=100)],
    )
    assert current.fair == 100
    assert [current.of_fair(one) for one in current.channels.values()] == [1.0, 1.0]
    assert {current.standing(one) for one in current.channels.values()} == {Standing.FAIR}


@pytest.mark.parametrize(
    ("values", "is_backlogged"),
    [
        ({"due": 1}, True),
        ({"due": 1, "blocked_by": "queue limit"}, True),
        ({"due": 1, "blocked_by": "rate"}, False),
        ({"due": 1, "blocked_by": "concurrency"}, False),
        ({"due": 1, "paused": True}, False),
        ({"scheduled": 1, "blocked_by": "scheduled"}, False),
        ({}, False),
    ],
)
def test_which_channels_are_backlogged(values: dict[str, object], is_backlogged: bool) -> None:
    assert snapshot([channel("a", **values)]).channels["a"].is_backlogged is is_backlogged


def test_the_fair_share_is_unknown_until_all_channels_are_read() -> None:
    table = ChannelTable()
    for poll in (1, 2):
        table.begin_poll()
        table.read([channel("b", due=5, served=poll)], poll)
    assert table.snapshot(queue(), 2.0, AT).fair is None
    table.read_page([channel("b", due=5, served=2)], 2.0, is_last=True)
    assert table.snapshot(queue(), 2.0, AT).fair == 1.0


def test_passes_over_the_pages_remove_channels_that_are_gone() -> None:
    table = ChannelTable()
    table.begin_poll()
    table.read_page([channel("a"), channel("b")], 1.0, is_last=False)
    assert (table.cursor, table.polls_per_pass) == ("b", 0)
    table.begin_poll()
    table.read([channel("z")], 2.0)
    table.read_page([channel("c"), channel("d")], 2.0, is_last=False)
    table.begin_poll()
    table.read_page([], 3.0, is_last=True)
    assert (table.cursor, table.polls_per_pass) == (None, 3)
    assert list(table.snapshot(None, 3.0, AT).channels) == ["a", "b", "c", "d"]
    table.begin_poll()
    table.read_page([channel("b"), channel("c")], 4.0, is_last=False)
    assert sorted(table.snapshot(None, 4.0, AT).channels) == ["b", "c", "d"]
    table.read_page([channel("e")], 4.0, is_last=True)
    assert sorted(table.snapshot(None, 4.0, AT).channels) == ["b", "c", "e"]
    assert table.polls_per_pass == 1


def test_a_snapshot_does_not_change() -> None:
    table = ChannelTable()
    table.begin_poll()
    table.read([channel("a")], 1.0)
    before = table.snapshot(queue(), 1.0, AT)
    table.begin_poll()
    table.read([channel("a", served=5), channel("b")], 2.0)
    assert (list(before.channels), before.channels["a"].stats.served) == (["a"], 0)


def test_the_stalest_of_those_shown() -> None:
    table = ChannelTable()
    for name in "abcd":
        table.begin_poll()
        table.read([channel(name)], float(table.poll))
    assert table.stalest(["d", "c", "b", "x"], 5) == ["b", "c"]
    assert table.stalest(["d", "c", "b", "a"], 2) == ["a", "b"]


@given(st.lists(st.none() | rates, max_size=40))
def test_sparklines(values: list[float | None]) -> None:
    line = sparkline(values)
    assert len(line) == len(values)
    for value, mark in zip(values, line, strict=True):
        assert (mark == " ") is (value is None)
        assert (mark == BLOCKS[0]) is (value == 0)
    if any(values):
        assert BLOCKS[-1] in line


def test_orders() -> None:
    current = snapshot(
        [channel("a"), channel("b"), channel("c")],
        [
            channel("a", due=1, oldest_due_ms=9000, served=1),
            channel("b", due=3, leased=1, oldest_due_ms=10, served=9),
            channel("c", scheduled=9, leased=2, served=1),
        ],
    )
    orders = {sort: "".join(one.name for one in sorted_channels(current, sort)) for sort in Sort}
    assert orders == {
        Sort.NAME: "abc",
        Sort.WAITING: "cba",
        Sort.DUE: "bac",
        Sort.LEASED: "cba",
        Sort.OLDEST: "abc",
        Sort.RATE: "bac",
        Sort.FAIR: "bac",
    }
    backlogged = [channel("a", due=1, served=1), channel("b", due=1, served=9), channel("c", served=5)]
    lacking = snapshot([channel("a", due=1), channel("b", due=1), channel("c")], backlogged)
    assert [one.name for one in sorted_channels(lacking, Sort.FAIR)] == ["a", "b", "c"]
    assert [one.name for one in sorted_channels(current, Sort.NAME, "b")] == ["b"]


def test_keys() -> None:
    view = ViewState().press("down", 100, 10).press("page down", 100, 10)
    assert view.first == 11
    assert view.press("end", 100, 10).first == 90
    assert view.press("home", 100, 10).first == 0
    assert view.press("s", 100, 10) == ViewState(Sort.DUE)
    for key, sort in SORT_KEYS.items():
        assert view.press(key, 100, 10) == ViewState(sort)
    assert view.press("p", 100, 10).is_paused
    assert not view.press("p", 100, 10).press("p", 100, 10).is_paused
    assert view.press("?", 100, 10).shows_help
    assert view.press("q", 100, 10).is_over
    assert view.press("x", 100, 10) == view


def test_a_prefix_is_typed() -> None:
    view = ViewState(first=7)
    for key in ("/", "q", "s", "x", "backspace", "up"):
        view = view.press(key, 100, 10)
    assert (view.prefix, view.is_typing, view.is_over, view.first) == ("qs", True, False, 0)
    done = view.press("enter", 100, 10)
    assert (done.prefix, done.is_typing) == ("qs", False)
    assert done.press("escape", 100, 10).prefix == ""
    assert view.press("escape", 100, 10) == ViewState()


pressed = st.sampled_from(
    ["up", "down", "page up", "page down", "home", "end", "s", "/", "x", "enter", "escape", "p", "?", "é"]
)


@given(st.lists(pressed, max_size=30), st.integers(0, 50), st.integers(1, 20))
def test_no_keys_scroll_past_the_rows(keys: list[str], rows: int, rows_that_fit: int) -> None:
    view = ViewState()
    for key in keys:
        view = view.press(key, rows, rows_that_fit)
        assert 0 <= view.first <= max(0, rows - rows_that_fit)


def test_jains_index_is_that_of_the_channels_that_compete() -> None:
    before = [channel("a", due=99), channel("b", due=99, weight=3.0), channel("c", due=9, paused=True)]
    after = [
        channel("a", due=99, served=10),
        channel("b", due=99, served=30, weight=3.0),
        channel("c", due=9, paused=True),
        channel("d", served=5),
    ]
    assert snapshot(before, after).jain == pytest.approx(1)
    unfair = [channel("a", due=99, served=30), channel("b", due=99, served=0), channel("c", served=5)]
    assert snapshot([channel("a", due=99), channel("b", due=99), channel("c")], unfair).jain == 0.5
    few = [channel("a", due=99, served=1), channel("b", due=99, served=0)]
    assert snapshot([channel("a", due=99), channel("b", due=99)], few).jain == 1, "one message says nothing"


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        ([channel("loud", due=900), channel("a", due=3), channel("b", leased=2)], {"loud"}),
        ([channel("loud", leased=90), channel("a", due=3)], {"loud"}),  # it occupies the consumers
        ([channel("alone", due=900), channel("a", leased=3)], set()),  # nobody else waits
        ([channel("a", due=300), channel("b", due=310), channel("c", due=290)], set()),  # none stands out
        ([channel("a", due=12), channel("b", due=1)], set()),  # the queue is nearly empty
        ([channel("a", due=45), channel("b", due=45), channel("c", due=1)], set()),
        ([channel("a", due=450), channel("b", due=450), channel("c", due=1)], {"a", "b"}),
        ([channel("a", due=900, paused=True), channel("b", due=1)], set()),  # it is held back
        ([channel("a", due=900, blocked_by="rate"), channel("b", due=1)], set()),
        ([channel("a", due=900, blocked_by="queue limit"), channel("b", due=1)], {"a"}),
        ([channel("a", due=900, weight=50.0), channel("b", due=50)], set()),  # its part is larger
        ([channel("a", due=900), channel("b", due=9, paused=True)], set()),  # the other does not wait for it
        ([channel("a", due=99), *(channel(f"t{n}", due=90) for n in range(12))], set()),  # below a tenth
    ],
)
def test_which_channels_are_noisy(channels: list[ChannelStatistics], expected: set[str]) -> None:
    assert snapshot(channels).noisy == expected


def test_how_long_quiet_channels_wait() -> None:
    channels = [
        channel("loud", due=900, oldest_due_ms=60_000),
        channel("a", due=3, oldest_due_ms=700),
        channel("b", due=3, oldest_due_ms=900),
        channel("c", due=3, oldest_due_ms=90_000, blocked_by="rate"),
    ]
    assert snapshot(channels).oldest_quiet_ms == 900
    assert snapshot([channel("loud", due=900, oldest_due_ms=5)]).oldest_quiet_ms == 5
    assert snapshot([channel("a")]).oldest_quiet_ms is None
