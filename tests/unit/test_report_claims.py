"""What one channel of a report asked for in each bucket, and what its own limits allowed."""

import math

import pytest

from lonnymq.rules.policy_log import EffectivePolicy, Since
from lonnymq.spark.reports.claims import (
    Change,
    ChannelClaim,
    Outcome,
    channel_claims,
    channel_result,
)
from lonnymq.spark.reports.span import Span

SPAN = Span(began_ms=100_000, ended_ms=103_999, bucket_ms=1_000)
FREE: list[Since[EffectivePolicy]] = [(0, EffectivePolicy())]


def change(bucket: int, arrived: int = 0, begun: int = 0, lane: str = "default", **values: int) -> Change:
    """Messages that cost 1 and take 400 ms."""
    given = {
        "arrived": arrived,
        "left": begun,
        "served": begun,
        "begun": begun,
        "ended": begun,
        "work_ms": 400 * begun,
        "first_ms": SPAN.start_of(bucket) if arrived else None,
        "largest": 1,
    }
    return Change(lane, bucket, **(given | values))  # type: ignore[arg-type]


def numbers(found: list[ChannelClaim]) -> list[tuple[int, float, float]]:
    return [(one.bucket, one.claim.served, one.claim.demand) for one in found]


def test_a_channel_asks_for_what_it_is_served_and_what_still_waits() -> None:
    """Also in buckets in which nothing happens, and up to the end. What was over before does not count."""
    found = channel_claims([change(-1, 12, 2), change(0, 0, 3), change(2, 1, 4)], FREE, SPAN)
    assert numbers(found) == [(0, 3, 10), (1, 0, 7), (2, 4, 8), (3, 0, 4)]
    assert all(one.claim.limit == math.inf and one.claim.weight == 1 for one in found)
    over = channel_claims([change(-1, 3, 3), change(1, 2, 2)], FREE, SPAN)
    assert numbers(over) == [(1, 2, 2)]
    assert [one.is_new for one in (*found, *over)] == [False] * 4 + [True]


def test_a_channel_that_comes_late_has_less_of_the_bucket() -> None:
    """Unless it gets all that it asks for."""
    late = change(1, 9, 1, first_ms=SPAN.start_of(1) + 750)
    assert [one.claim.weight for one in channel_claims([late], FREE, SPAN)] == [0.25, 1, 1]
    [done] = channel_claims([late._replace(left=9, served=9, begun=9)], FREE, SPAN)
    assert done.claim.weight == 1


def test_limits_of_a_channel() -> None:
    """A slot is busy for 400 ms, and 100 ms pass until it is filled again: two per second and slot. In the
    first bucket, the slots are free. Lanes share the limit.
    """
    policy = [(0, EffectivePolicy(max_concurrency=2))]
    changes = [change(0, 50, 4), change(1, 0, 4), change(2, 0, 3), change(2, 1, 1, "mail"), change(3, 0, 4)]
    found = channel_claims(changes, policy, SPAN)
    limits = {(one.lane, one.bucket): one.claim.limit for one in found}
    assert limits == {
        ("default", 0): pytest.approx(6, rel=0.01),
        ("default", 1): pytest.approx(4, rel=0.01),
        ("default", 2): pytest.approx(3, rel=0.01),
        ("mail", 2): pytest.approx(1, rel=0.01),
        ("default", 3): pytest.approx(4, rel=0.01),
    }
    starved = channel_claims([change(-1, 50), change(1, 0, 1)], policy, SPAN)
    assert starved[2].claim.limit == pytest.approx(4), "others starve it: the turnaround does not explain it"


def test_policies_that_change() -> None:
    """Paused for 1.5 of four seconds, with another weight afterwards."""
    at = SPAN.start_of(1)
    policies = [
        (0, EffectivePolicy(weight=2.0)),
        (at + 500, EffectivePolicy(paused=True, weight=2.0)),
        (at + 2_000, EffectivePolicy(weight=4.0, release_interval_us=100_000)),
    ]
    found = channel_claims([change(-1, 99), change(0, 0, 1)], policies, SPAN)
    assert [one.claim.weight for one in found] == [2, 1, 0, 4]
    assert [one.paused_ms for one in found] == [0, 500, 1_000, 0]
    assert [one.claim.limit for one in found] == [math.inf, math.inf, 0, pytest.approx(5)]


def outcome(bucket: int, served: float, entitled: float, **values: object) -> Outcome:
    given = {"competes": False, "held_ms": 0, "is_new": False, "largest": 1, "lane": "default"} | values
    return Outcome(bucket=bucket, served=served, entitled=entitled, **given)  # type: ignore[arg-type]


def test_the_result_of_a_channel() -> None:
    """What it is behind is forgotten when nothing waits. Lanes are apart, and time counts once."""
    found = channel_result(
        [
            outcome(3, 9, 9, held_ms=700, lane="mail"),
            outcome(3, 9, 9, held_ms=500),
            outcome(1, 3, 5, competes=True),
            outcome(2, 5, 4, competes=True),
            outcome(4, 0, 2, is_new=True),
        ]
    )
    assert (found.served, found.entitled, found.held_ms) == (26, 29, 700)
    assert (found.competed_served, found.competed_entitled) == (8, 9)
    assert found.lacked == (2 - 1) + (2 - 1)
