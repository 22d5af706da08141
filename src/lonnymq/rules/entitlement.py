"""What each channel is entitled to of what the queue served. This is the only definition: `lonnymq top`, the
dashboard, the metrics and the report use it.

Take one stretch of time: a bucket of a report, or the last polls of `lonnymq top`. C is what all channels
were served. A channel that was served x and still has w waiting at the end asked for D = x + w. Its own
limits would have let it have L at most: see `own_limit`. Its entitlement is

    e = min(D, L, weight * level)

where the level is such that the entitlements add up to C (this is called water filling, or weighted max-min
fairness). A channel whose entitlement is weight * level is bound by its share: it *competes*, as it could
have had more but for the others. One that is bound by D got all that it asked for, and one that is bound by L
is held back by itself.

The limits of all channels can allow less than C, as L is an estimate. The rest then goes to the channels that
were served more than their L, in proportion to what they were served more.

What is served is counted in costs in the report, which knows them; `lonnymq top` counts messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lonnymq.rules.policy_log import EffectivePolicy

ENOUGH_MESSAGES = 10
"""Jain's index leaves out channels that are entitled to less: one message more or less would make them look
unfairly served.
"""
MAX_TURNAROUND_S = 0.1
"""The dispatcher reads what is due, and fills a place that has become free, 20 to 60 ms later. A channel that
waits for longer does not wait for the dispatcher.
"""
PRECISION_S = 1e-4
ROUNDING = 1 + 1e-9
"""Sums of fractions differ in their last digits: a channel that got all it asked for does not compete."""


class BoundBy(StrEnum):
    """What a channel's entitlement is bound by."""

    DEMAND = "demand"
    LIMIT = "limit"
    SHARE = "share"


class Claim(NamedTuple):
    """One channel during one stretch of time.

    `demand` is what it was served and what still waits at the end; `limit` is what its own limits would have
    let it have, infinite without limits.
    """

    served: float
    demand: float
    limit: float = math.inf
    weight: float = 1.0


class Entitlement(NamedTuple):
    amount: float
    bound_by: BoundBy


@dataclass(frozen=True, slots=True)
class Level:
    """What a channel of weight 1 that competes is entitled to. Infinite if no channel competes.

    `excess`: if the limits of all channels allow less than was served, the part of what a channel was served
    above its limit that it is entitled to as well.
    """

    height: float
    excess: float = 0.0

    def entitlement(self, claim: Claim) -> Entitlement:
        share = claim.weight * self.height if claim.weight else 0.0
        if share < claim.demand and share < claim.limit:
            return Entitlement(share, BoundBy.SHARE)
        if claim.limit < claim.demand:
            more = self.excess * max(0.0, claim.served - claim.limit)
            return Entitlement(claim.limit + more, BoundBy.LIMIT)
        return Entitlement(claim.demand, BoundBy.DEMAND)


def level_of(claims: Iterable[Claim]) -> Level:
    """
    >>> level_of([Claim(served=70, demand=500), Claim(served=20, demand=500), Claim(served=10, demand=10)])
    Level(height=45.0, excess=0.0)
    """
    given = claims if isinstance(claims, Sequence) else list(claims)
    total = math.fsum(claim.served for claim in given)
    allowed = math.fsum(min(claim.demand, claim.limit) for claim in given)
    if allowed >= total:
        return Level(water_level(total, [(min(claim.demand, claim.limit), claim.weight) for claim in given]))
    above = math.fsum(max(0.0, claim.served - claim.limit) for claim in given)
    return Level(math.inf, min(1.0, (total - allowed) / above))


def entitlements(claims: Sequence[Claim]) -> list[Entitlement]:
    """The entitlement of each channel. They add up to what all were served.

    >>> alone = Claim(served=90, demand=9_000)
    >>> limited = Claim(served=10, demand=500, limit=10)
    >>> [str(one.bound_by) for one in entitlements([alone, limited])]
    ['share', 'limit']
    """
    level = level_of(claims)
    return [level.entitlement(claim) for claim in claims]


def water_level(total: float, bounds: Iterable[tuple[float, float]]) -> float:
    """The level at which the smaller of each bound and weight * level add up to the total. `bounds` has
    the bound and the weight of each. Infinite if all bounds together are not more than the total.

    >>> water_level(100, [(math.inf, 1)] * 4), water_level(100, [(math.inf, 1), (10, 1), (10, 1)])
    (25.0, 80.0)
    >>> water_level(90, [(math.inf, 1), (math.inf, 2)]), water_level(5, [(3, 1), (2, 1)])
    (30.0, inf)
    """
    rising = sorted((bound / weight, bound, weight) for bound, weight in bounds if weight > 0 and bound > 0)
    left, width = float(total), math.fsum(weight for _, _, weight in rising)
    for height, bound, weight in rising:
        if height * width > left * ROUNDING:
            break
        left -= bound
        width -= weight
    else:
        return math.inf
    return max(0.0, left) / width if width > 0 else math.inf


def own_limit(
    policy: EffectivePolicy, seconds: float, *, work_s: float = 0.0, turnaround_s: float = 0.0, is_idle: bool
) -> float:
    """How many messages the limits of a channel let it start during these seconds.

    A concurrency limit allows as many as its slots can work through: each message takes a slot for `work_s`,
    and `turnaround_s` passes until the next one has it. A rate allows one per interval; with a burst of 1,
    the next interval begins only when the message before was started, `turnaround_s` late. A channel that
    had nothing waiting before (`is_idle`) has its slots free and its burst saved up. A pause allows nothing.

    >>> from lonnymq.rules.policy_log import EffectivePolicy
    >>> own_limit(EffectivePolicy(release_interval_us=200_000), 10, is_idle=False)
    50.0
    >>> own_limit(EffectivePolicy(max_concurrency=2), 10, work_s=0.5, turnaround_s=0.5, is_idle=True)
    22.0
    """
    if policy.paused:
        return 0.0
    allowed = math.inf
    if policy.release_interval_us:
        interval_s = policy.release_interval_us / 1_000_000
        each_s = interval_s + turnaround_s if policy.burst == 1 else interval_s
        allowed = seconds / each_s + (policy.burst if is_idle else 0)
    each_s = work_s + turnaround_s
    if policy.max_concurrency and each_s > 0:
        at_once = policy.max_concurrency if is_idle else 0
        allowed = min(allowed, policy.max_concurrency * seconds / each_s + at_once)
    return allowed


def turnaround(policies: Mapping[EffectivePolicy, float], started: float, work_s: float) -> float:
    """The turnaround in seconds with which the limits allow as many messages as were started, at most
    MAX_TURNAROUND_S. `policies` has the seconds for which each held while something always waited.

    >>> from lonnymq.rules.policy_log import EffectivePolicy
    >>> round(turnaround({EffectivePolicy(max_concurrency=1): 10.0}, started=200, work_s=0.02), 3)
    0.03
    """

    def allowed(turnaround_s: float) -> float:
        return sum(
            own_limit(policy, seconds, work_s=work_s, turnaround_s=turnaround_s, is_idle=False)
            for policy, seconds in policies.items()
        )

    low, high = 0.0, MAX_TURNAROUND_S
    if allowed(high) >= started:
        return high
    while high - low > PRECISION_S:
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) > started else (low, middle)
    return low


def lacking(entitled: Iterable[float], served: Iterable[float], message: float) -> list[float]:
    """How much less than its entitlement a channel got in each of some stretches of time that follow one
    another, and in which it always had something waiting.

    What it lacks is carried over, and what it gets on top later makes up for it. As a message cannot be
    divided, a channel lacks nothing as long as it is behind by no more than one: `message` is the cost of its
    largest.

    >>> lacking([0.5] * 6, [1, 0, 1, 0, 1, 0], 1), lacking([5, 5, 5], [0, 0, 15], 1)
    ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [4.0, 5.0, 0.0])
    """
    found: list[float] = []
    behind = before = 0.0
    for amount, got in zip(entitled, served, strict=True):
        behind = max(0.0, behind + amount - got)
        now = max(0.0, behind - message)
        found.append(max(0.0, now - before))
        before = now
    return found


def jain(ratios: Iterable[float]) -> float:
    """Jain's index: 1 if all are equal, 1/n if one of n has everything. It is 1 if there are fewer than two,
    or if nothing was served. `ratios` are what each channel that competes was served, divided by what it was
    entitled to.

    >>> jain([5, 5, 5]), jain([6, 0]), jain([7])
    (1.0, 0.5, 1.0)
    """
    given = list(ratios)
    squares = math.fsum(ratio * ratio for ratio in given)
    return math.fsum(given) ** 2 / (len(given) * squares) if squares else 1.0
