"""What `lonnymq top` makes of what it has read: rates, shares, who is shown."""

import doctest
import importlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lonnymq.cli.name_prefix import just_before
from lonnymq.cli.top.fairness import Standing, fair_rate, standing
from lonnymq.cli.top.rates import LOOKS_COMPARED, LOOKS_KEPT, Reading, Track
from lonnymq.cli.top.sort import Sort
from lonnymq.cli.top.sparkline import BLOCKS, sparkline
from lonnymq.cli.top.state import Book
from lonnymq.cli.top.view import SORT_KEYS, View, listed
from tests.cli.pictures import AT, channel, picture, queue

rates = st.floats(0, 1e6)
weights = st.floats(0.001, 1000)
names = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=3)


@pytest.mark.parametrize("module", ["rates", "fairness", "poll", "sparkline"])
def test_the_examples_in_the_code(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"lonnymq.cli.top.{module}")).failed == 0


def test_one_reading_is_no_rate() -> None:
    assert Track().rate is None
    assert Track().plus(Reading(1, 5.0, 100)).rate is None


def test_a_rate_is_that_of_the_last_looks() -> None:
    track = Track()
    for look in range(1, 16):
        track = track.plus(Reading(look, float(look), 1000 if look < 5 else 1000 + 2 * (look - 4)))
    assert (track.served, track.seconds, track.rate) == (2 * LOOKS_COMPARED, LOOKS_COMPARED, 2.0)


def test_a_track_that_is_read_seldom_compares_its_last_two_readings() -> None:
    track = Track()
    for look in (1, 41, 81):
        track = track.plus(Reading(look, float(look), look * 3))
    assert (len(track.readings), track.rate) == (2, 3.0)
    assert track.trend(81, 5) == [3.0] * 5
    assert track.trend(83, 5) == [3.0, 3.0, 3.0, None, None]


def test_a_channel_that_was_forgotten_begins_anew() -> None:
    track = Track().plus(Reading(1, 1.0, 50)).plus(Reading(2, 2.0, 60)).plus(Reading(3, 3.0, 4))
    assert (len(track.readings), track.rate) == (1, None)


def test_the_second_reading_of_a_look_takes_the_place_of_the_first() -> None:
    track = Track().plus(Reading(1, 1.0, 0)).plus(Reading(2, 2.0, 5)).plus(Reading(2, 3.0, 8))
    assert [reading.served for reading in track.readings] == [0, 8]


def test_hungry_is_who_was_so_each_time() -> None:
    track = Track().plus(Reading(1, 1.0, 0, is_hungry=True))
    assert track.is_hungry
    sated = track.plus(Reading(2, 2.0, 1, is_hungry=False))
    for look in range(3, 3 + LOOKS_COMPARED):
        sated = sated.plus(Reading(look, float(look), look, is_hungry=True))
        assert sated.is_hungry is (look == 2 + LOOKS_COMPARED + 1)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 1000)), min_size=1, max_size=40))
def test_a_track_keeps_no_more_than_its_looks(steps: list[tuple[int, int]]) -> None:
    track, look, served = Track(), 0, 0
    for step, more in steps:
        look, served = look + step, served + more
        track = track.plus(Reading(look, look / 2, served))
    looks = [reading.look for reading in track.readings]
    assert looks == sorted(set(looks))
    assert looks[-1] == look
    assert all(kept > look - LOOKS_KEPT for kept in looks[1:-1])
    assert len(track.readings) > 1 or len(steps) == 1
    trend = track.trend(look)
    assert len(trend) == LOOKS_KEPT
    known = [rate for rate in trend if rate is not None]
    assert all(rate >= 0 for rate in known)
    assert trend == [None] * (LOOKS_KEPT - len(known)) + known


@given(weights, st.lists(st.tuples(rates, weights), max_size=50), rates)
def test_fair_shares_add_up_to_what_was_served(
    hungry: float, modest: list[tuple[float, float]], more: float
) -> None:
    total = sum(wish for wish, _ in modest) + more
    fair = fair_rate(total, hungry, modest)
    if not total:
        assert fair is None
        return
    assert fair is not None
    assert 0 <= fair * hungry <= total * (1 + 1e-6)
    shared = hungry * fair + sum(min(wish, fair * weight) for wish, weight in modest)
    assert shared == pytest.approx(total, rel=1e-6)


def test_where_nobody_lacks_anything_nothing_is_unfair() -> None:
    assert fair_rate(100, 0, [(60, 1), (40, 1)]) is None
    assert standing(1000, 1, None, is_hungry=True) is Standing.FAIR


def test_a_few_messages_more_or_less_are_chance() -> None:
    assert standing(2, 10, 0.05, is_hungry=False) is Standing.FAIR
    assert standing(3, 10, 0.05, is_hungry=False) is Standing.ABOVE
    assert standing(0, 10, 0.2, is_hungry=True) is Standing.FAIR
    assert standing(124, 10, 10, is_hungry=True) is Standing.FAIR
    assert standing(126, 10, 10, is_hungry=True) is Standing.ABOVE
    assert standing(74, 10, 10, is_hungry=True) is Standing.BELOW
    assert standing(74, 10, 10, is_hungry=False) is Standing.FAIR


def test_shares() -> None:
    seen = picture(
        [channel("greedy", due=9), channel("robbed", due=9), channel("modest"), channel("held", due=5)],
        [
            channel("greedy", due=9, served=700),
            channel("robbed", due=9, served=200),
            channel("modest", served=100),
            channel("held", due=5, blocked_by="rate"),
        ],
    )
    greedy, robbed, modest, held = (seen.channels[name] for name in ("greedy", "robbed", "modest", "held"))
    assert (seen.total, seen.hungry, seen.fair) == (1000, 2, 450)
    assert (seen.share(greedy), seen.share(robbed), seen.share(modest)) == (0.7, 0.2, 0.1)
    assert seen.of_fair(greedy) == pytest.approx(700 / 450)
    shown = [seen.standing(one) for one in (greedy, robbed, modest, held)]
    assert shown == [Standing.ABOVE, Standing.BELOW, Standing.FAIR, Standing.FAIR]


def test_a_share_goes_by_weight() -> None:
    seen = picture(
        [channel("heavy", due=9, weight=3.0), channel("light", due=9)],
        [channel("heavy", due=9, weight=3.0, served=300), channel("light", due=9, served=100)],
    )
    assert seen.fair == 100
    assert [seen.of_fair(one) for one in seen.channels.values()] == [1.0, 1.0]
    assert {seen.standing(one) for one in seen.channels.values()} == {Standing.FAIR}


@pytest.mark.parametrize(
    ("values", "is_hungry"),
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
def test_who_competes(values: dict[str, object], is_hungry: bool) -> None:
    assert picture([channel("a", **values)]).channels["a"].is_hungry is is_hungry


def test_what_is_fair_is_not_known_before_all_channels_are() -> None:
    book = Book()
    for look in (1, 2):
        book.begin_look()
        book.read([channel("b", due=5, served=look)], look)
    assert book.picture(queue(), 2.0, AT).fair is None
    book.read_page([channel("b", due=5, served=2)], 2.0, is_last=True)
    assert book.picture(queue(), 2.0, AT).fair == 1.0


def test_pages_go_round_and_what_is_gone_goes() -> None:
    book = Book()
    book.begin_look()
    book.read_page([channel("a"), channel("b")], 1.0, is_last=False)
    assert (book.cursor, book.sweep) == ("b", 0)
    book.begin_look()
    book.read([channel("z")], 2.0)
    book.read_page([channel("c"), channel("d")], 2.0, is_last=False)
    book.begin_look()
    book.read_page([], 3.0, is_last=True)
    assert (book.cursor, book.sweep) == (None, 3)
    assert list(book.picture(None, 3.0, AT).channels) == ["a", "b", "c", "d"]
    book.begin_look()
    book.read_page([channel("b"), channel("c")], 4.0, is_last=False)
    assert sorted(book.picture(None, 4.0, AT).channels) == ["b", "c", "d"]
    book.read_page([channel("e")], 4.0, is_last=True)
    assert sorted(book.picture(None, 4.0, AT).channels) == ["b", "c", "e"]
    assert book.sweep == 1


def test_a_picture_does_not_change() -> None:
    book = Book()
    book.begin_look()
    book.read([channel("a")], 1.0)
    before = book.picture(queue(), 1.0, AT)
    book.begin_look()
    book.read([channel("a", served=5), channel("b")], 2.0)
    assert (list(before.channels), before.channels["a"].now.served) == (["a"], 0)


def test_the_stalest_of_those_shown() -> None:
    book = Book()
    for name in "abcd":
        book.begin_look()
        book.read([channel(name)], float(book.look))
    assert book.stalest(["d", "c", "b", "x"], 5) == ["b", "c"]
    assert book.stalest(["d", "c", "b", "a"], 2) == ["a", "b"]


@given(names, names)
@example("\ue000", "x")
@example("\x01", "x")
def test_what_begins_with_a_prefix_comes_after_it(prefix: str, rest: str) -> None:
    before = just_before(prefix)
    before.encode()
    assert before < prefix
    assert before < prefix + rest


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
    seen = picture(
        [channel("a"), channel("b"), channel("c")],
        [
            channel("a", due=1, oldest_due_ms=9000, served=1),
            channel("b", due=3, leased=1, oldest_due_ms=10, served=9),
            channel("c", scheduled=9, leased=2, served=1),
        ],
    )
    orders = {sort: "".join(one.name for one in listed(seen, sort)) for sort in Sort}
    assert orders == {
        Sort.NAME: "abc",
        Sort.WAITING: "cba",
        Sort.DUE: "bac",
        Sort.LEASED: "cba",
        Sort.OLDEST: "abc",
        Sort.RATE: "bac",
        Sort.FAIR: "bac",
    }
    hungry = [channel("a", due=1, served=1), channel("b", due=1, served=9), channel("c", served=5)]
    lacking = picture([channel("a", due=1), channel("b", due=1), channel("c")], hungry)
    assert [one.name for one in listed(lacking, Sort.FAIR)] == ["a", "b", "c"]
    assert [one.name for one in listed(seen, Sort.NAME, "b")] == ["b"]


def test_keys() -> None:
    view = View().press("down", 100, 10).press("page down", 100, 10)
    assert view.first == 11
    assert view.press("end", 100, 10).first == 90
    assert view.press("home", 100, 10).first == 0
    assert view.press("s", 100, 10) == View(Sort.DUE)
    for key, sort in SORT_KEYS.items():
        assert view.press(key, 100, 10) == View(sort)
    assert view.press("p", 100, 10).is_paused
    assert not view.press("p", 100, 10).press("p", 100, 10).is_paused
    assert view.press("?", 100, 10).is_helping
    assert view.press("q", 100, 10).is_over
    assert view.press("x", 100, 10) == view


def test_a_prefix_is_typed() -> None:
    view = View(first=7)
    for key in ("/", "q", "s", "x", "backspace", "up"):
        view = view.press(key, 100, 10)
    assert (view.prefix, view.is_typing, view.is_over, view.first) == ("qs", True, False, 0)
    done = view.press("enter", 100, 10)
    assert (done.prefix, done.is_typing) == ("qs", False)
    assert done.press("escape", 100, 10).prefix == ""
    assert view.press("escape", 100, 10) == View()


pressed = st.sampled_from(
    ["up", "down", "page up", "page down", "home", "end", "s", "/", "x", "enter", "escape", "p", "?", "é"]
)


@given(st.lists(pressed, max_size=30), st.integers(0, 50), st.integers(1, 20))
def test_no_keys_lead_beyond_the_rows(keys: list[str], rows: int, fitting: int) -> None:
    view = View()
    for key in keys:
        view = view.press(key, rows, fitting)
        assert 0 <= view.first <= max(0, rows - fitting)
