"""What one channel asked for in each bucket, and what its own limits allowed: the claims that
`lonnymq.rules.entitlement` weighs against those of the other channels. Plain Python, without Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

from lonnymq.rules.entitlement import Claim, lacking, own_limit, turnaround
from lonnymq.rules.policy_log import EffectivePolicy, Since
from lonnymq.spark.reports.span import Span


class Change(NamedTuple):
    """What happened to the attempts of a channel in one lane during one bucket; -1 is the time before.

    `arrived`, `left` and `served` are costs: of attempts that became due, that were dequeued or cancelled,
    and that were dequeued. `begun` attempts were dequeued; those of them that have `ended` took `work_ms`.
    `first_ms` is when the first of them became due, `largest` their highest cost.
    """

    lane: str
    bucket: int
    arrived: int
    left: int
    served: int
    begun: int
    ended: int
    work_ms: int
    first_ms: int | None
    largest: int


class LaneBucket(NamedTuple):
    """A bucket in which the channel waited or was served; `before` and `after` is what waited at its start
    and at its end.
    """

    change: Change
    before: int
    after: int


class ChannelClaim(NamedTuple):
    """A claim, and how long it was held back by a pause, of the time that it was there.

    `is_new`: nothing waited at the start of the bucket.
    """

    lane: str
    bucket: int
    claim: Claim
    paused_ms: int
    present_ms: int
    is_new: bool
    largest: int


class Outcome(NamedTuple):
    """What a channel got in one bucket of a lane, and what it was entitled to."""

    lane: str
    bucket: int
    served: float
    entitled: float
    competes: bool
    held_ms: int
    is_new: bool
    largest: int


@dataclass(frozen=True, slots=True)
class ChannelResult:
    """A channel over the whole time. `competed_served` and `competed_entitled` are of the buckets in which it
    was bound by its share.
    """

    served: float
    entitled: float
    lacked: float
    held_ms: int
    competed_served: float
    competed_entitled: float
    largest: int


def channel_claims(
    changes: Iterable[Change], policies: Sequence[Since[EffectivePolicy]], span: Span
) -> list[ChannelClaim]:
    """`policies` are those of the channel, with the time since when each holds, oldest first."""
    given = sorted(changes)
    largest = max((change.largest for change in given), default=1)
    of_bucket: defaultdict[int, list[LaneBucket]] = defaultdict(list)
    for lane_bucket in _lane_buckets(given, span):
        of_bucket[lane_bucket.change.bucket].append(lane_bucket)
    pace = _Pace.of(of_bucket, policies, span, largest)
    return [
        one
        for bucket, lanes in sorted(of_bucket.items())
        for one in _claims(bucket, lanes, policies, pace, span)
    ]


def channel_result(outcomes: Iterable[Outcome]) -> ChannelResult:
    """What a channel is behind is carried over while it has something waiting, in each lane on its own."""
    given = sorted(outcomes)
    largest = max(one.largest for one in given)
    held_ms: defaultdict[int, int] = defaultdict(int)
    for one in given:
        held_ms[one.bucket] = max(held_ms[one.bucket], one.held_ms)
    lacked = 0.0
    for stretch in _stretches(given):
        lacked += sum(lacking((one.entitled for one in stretch), (one.served for one in stretch), largest))
    return ChannelResult(
        served=sum(one.served for one in given),
        entitled=sum(one.entitled for one in given),
        lacked=lacked,
        held_ms=sum(held_ms.values()),
        competed_served=sum(one.served for one in given if one.competes),
        competed_entitled=sum(one.entitled for one in given if one.competes),
        largest=largest,
    )


def _stretches(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """The outcomes of one lane from the time when something began to wait."""
    stretch: list[Outcome] = []
    for one in outcomes:
        if stretch and (one.is_new or one.lane != stretch[-1].lane):
            yield stretch
            stretch = []
        stretch.append(one)
    if stretch:
        yield stretch


def _lane_buckets(changes: Iterable[Change], span: Span) -> Iterator[LaneBucket]:
    for lane, of_lane in groupby(sorted(changes), key=lambda change: change.lane):
        waiting = 0
        given = [*of_lane, Change(lane, span.buckets, 0, 0, 0, 0, 0, 0, None, 0)]
        for change, following in pairwise(given):
            before, waiting = waiting, waiting + change.arrived - change.left
            if change.bucket >= 0:
                yield LaneBucket(change, before, waiting)
            if waiting > 0:
                for bucket in range(change.bucket + 1, following.bucket):
                    nothing = Change(lane, bucket, 0, 0, 0, 0, 0, 0, None, 0)
                    yield LaneBucket(nothing, waiting, waiting)


@dataclass(frozen=True, slots=True)
class _Pace:
    """How long an attempt of the channel takes, what it costs, and its turnaround, on average. The last is
    measured while the channel always had something waiting. `largest` is the highest cost.
    """

    work_s: float
    turnaround_s: float
    cost: float
    largest: int

    @staticmethod
    def of(
        of_bucket: Mapping[int, Sequence[LaneBucket]],
        policies: Sequence[Since[EffectivePolicy]],
        span: Span,
        largest: int,
    ) -> _Pace:
        every = [lane.change for lanes in of_bucket.values() for lane in lanes]
        begun, ended = sum(change.begun for change in every), sum(change.ended for change in every)
        cost = sum(change.served for change in every) / begun if begun else 1.0
        work_s = sum(change.work_ms for change in every) / ended / 1000 if ended else 0.0
        started = 0
        seconds: defaultdict[EffectivePolicy, float] = defaultdict(float)
        for bucket, lanes in of_bucket.items():
            if any(lane.before for lane in lanes) and any(lane.after for lane in lanes):
                started += sum(lane.change.begun for lane in lanes)
                for policy, part_ms in _parts(policies, span.start_of(bucket), span.end_of(bucket)):
                    seconds[policy] += part_ms / 1000
        return _Pace(work_s, turnaround(seconds, started, work_s), cost, largest)


def _claims(
    bucket: int,
    lanes: Sequence[LaneBucket],
    policies: Sequence[Since[EffectivePolicy]],
    pace: _Pace,
    span: Span,
) -> Iterator[ChannelClaim]:
    start, end = span.start_of(bucket), span.end_of(bucket)
    is_idle = not any(lane.before for lane in lanes)
    firsts = [lane.change.first_ms for lane in lanes if lane.change.first_ms is not None]
    since = max(start, min(firsts)) if is_idle and firsts else start
    parts = list(_parts(policies, since, end))
    limit = pace.cost * sum(
        own_limit(
            policy,
            part_ms / 1000,
            work_s=pace.work_s,
            turnaround_s=pace.turnaround_s,
            is_idle=is_idle and place == 0,
        )
        for place, (policy, part_ms) in enumerate(parts)
    )
    served = sum(lane.change.served for lane in lanes)
    paused_ms = sum(part_ms for policy, part_ms in parts if policy.paused)
    weight = sum(0.0 if policy.paused else policy.weight * part_ms for policy, part_ms in parts)
    for lane in lanes:
        # A channel that began to wait during the bucket, and still waits at its end, could have had its share
        # only since then. One that has nothing waiting at the end got all that it asked for.
        whole_ms = end - start if lane.after else end - since
        own = Claim(
            float(lane.change.served),
            float(lane.change.served + lane.after),
            max(0.0, limit - (served - lane.change.served)),
            weight / whole_ms if whole_ms else 1.0,
        )
        yield ChannelClaim(
            lane.change.lane,
            bucket,
            own,
            paused_ms if lane.before or lane.after else 0,
            end - since,
            lane.before == 0,
            pace.largest,
        )


def _parts(
    policies: Sequence[Since[EffectivePolicy]], since: int, until: int
) -> Iterator[tuple[EffectivePolicy, int]]:
    """Each policy that held during this time, and for how many milliseconds."""
    ends = [at for at, _ in policies[1:]]
    for (begin, policy), end in zip(policies, [*ends, until], strict=True):
        part_ms = min(end, until) - max(begin, since)
        if part_ms > 0:
            yield policy, part_ms
