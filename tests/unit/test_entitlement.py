"""What channels are entitled to: the properties of the definition, whatever the channels are."""

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lonnymq.rules import entitlement
from lonnymq.rules.entitlement import (
    BoundBy,
    Claim,
    entitlements,
    lacking,
    level_of,
    own_limit,
    water_level,
)
from lonnymq.rules.policy_log import EffectivePolicy

amounts = st.floats(0, 1e6) | st.integers(0, 20).map(float)
weights = st.floats(0.001, 1000) | st.just(1.0)


@st.composite
def claim(draw: st.DrawFn) -> Claim:
    served = draw(amounts)
    limit = draw(st.just(math.inf) | amounts)
    return Claim(served, served + draw(amounts), limit, draw(weights))


claims = st.lists(claim(), min_size=1, max_size=30)


def test_the_examples_in_the_code() -> None:
    failed, tried = doctest.testmod(entitlement)
    assert (failed, tried > 0) == (0, True)


@given(claims)
def test_entitlements_add_up_to_what_was_served(given: list[Claim]) -> None:
    found = entitlements(given)
    total = sum(one.served for one in given)
    assert sum(one.amount for one in found) == pytest.approx(total, rel=1e-6, abs=1e-6)


@given(claims)
def test_nobody_is_entitled_to_more_than_its_bounds(given: list[Claim]) -> None:
    """Not to more than it asked for, nor than its share, nor than its limit or what it was served."""
    level = level_of(given)
    for one, found in zip(given, entitlements(given), strict=True):
        assert 0 <= found.amount <= one.demand * (1 + 1e-9)
        assert found.amount <= (max(one.limit, one.served) if level.excess else one.limit) * (1 + 1e-9)
        assert found.amount <= one.weight * level.height
        if found.bound_by is BoundBy.SHARE:
            assert found.amount == one.weight * level.height
        elif not level.excess:
            assert found.amount in {one.demand, one.limit}


@given(claims, st.data())
def test_asking_for_more_never_lowers_the_own_entitlement(given: list[Claim], data: st.DataObject) -> None:
    """And neither does a higher weight; and for the others neither raises anything."""
    place = data.draw(st.integers(0, len(given) - 1))
    one = given[place]
    more = data.draw(amounts)
    for raised in (
        one._replace(demand=one.demand + more),
        one._replace(weight=one.weight * (1 + more)),
    ):
        before = entitlements(given)
        after = entitlements([*given[:place], raised, *given[place + 1 :]])
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            slack = 1e-6 * (1 + old.amount)
            if number == place:
                assert new.amount >= old.amount - slack
            else:
                assert new.amount <= old.amount + slack


@given(claims, st.floats(0.01, 100), st.floats(0.01, 100))
def test_units_do_not_matter(given: list[Claim], unit: float, weight_unit: float) -> None:
    """Neither the unit of what is served nor that of the weights."""
    scaled = [
        Claim(one.served * unit, one.demand * unit, one.limit * unit, one.weight * weight_unit)
        for one in given
    ]
    for old, new in zip(entitlements(given), entitlements(scaled), strict=True):
        assert new.amount == pytest.approx(old.amount * unit, rel=1e-5, abs=1e-5)


@given(st.lists(st.tuples(amounts, weights), max_size=30), st.floats(0, 1e7))
def test_the_level_rises_with_the_total(bounds: list[tuple[float, float]], total: float) -> None:
    assert water_level(total, bounds) <= water_level(total * 1.5 + 1, bounds) + 1e-6


def test_a_fair_queue_is_fair_whatever_the_limits() -> None:
    """Nobody got less than the entitlement, though one channel got nine times as much as the others."""
    given = [
        Claim(served=90, demand=20_000),
        Claim(served=5, demand=300, limit=5),
        Claim(served=0, demand=40, limit=0),  # paused
        Claim(served=4, demand=4),
        Claim(served=1, demand=1),
    ]
    found = entitlements(given)
    assert [one.amount for one in found] == [90, 5, 0, 4, 1]
    assert [str(one.bound_by) for one in found] == ["share", "limit", "limit", "demand", "demand"]


def test_limits_that_are_estimated_too_low() -> None:
    """Two channels were served more than their limits seem to allow: they are entitled to what they got."""
    given = [Claim(served=12, demand=100, limit=10), Claim(served=11, demand=50, limit=10)]
    assert [one.amount for one in entitlements(given)] == [12, 11]
    starved = Claim(served=0, demand=1)
    assert [one.amount for one in entitlements([*given, starved])] == pytest.approx([34 / 3, 32 / 3, 1])


@pytest.mark.parametrize(
    ("policy", "is_idle", "allowed"),
    [
        (EffectivePolicy(), True, math.inf),
        (EffectivePolicy(paused=True), True, 0),
        (EffectivePolicy(release_interval_us=100_000, burst=5), False, 20),
        (EffectivePolicy(release_interval_us=100_000, burst=5), True, 25),
        (EffectivePolicy(max_concurrency=3), False, 12),
        (EffectivePolicy(max_concurrency=3), True, 15),
        (EffectivePolicy(max_concurrency=3, release_interval_us=900_000), False, 2),
    ],
)
def test_what_limits_allow(policy: EffectivePolicy, is_idle: bool, allowed: float) -> None:
    """In two seconds, with messages that take 400 ms and 100 ms until the slot is filled again."""
    found = own_limit(policy, 2, work_s=0.4, turnaround_s=0.1, is_idle=is_idle)
    assert found == pytest.approx(allowed)


@given(st.lists(st.tuples(amounts, amounts), max_size=30), st.floats(0, 10))
def test_what_is_lacking(steps: list[tuple[float, float]], message: float) -> None:
    """Never more than the shortfall of each step, and nothing if each got its entitlement."""
    entitled, served = [step[0] for step in steps], [step[1] for step in steps]
    found = lacking(entitled, served, message)
    assert all(lack <= max(0, e - x) + 1e-6 for lack, (e, x) in zip(found, steps, strict=True))
    assert not any(lacking(entitled, entitled, message))
    exactly = lacking(entitled, [0.0] * len(steps), 0.0)
    assert sum(exactly) == pytest.approx(sum(entitled))
