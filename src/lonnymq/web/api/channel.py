"""One channel: why it is not served, its numbers, its limits and its weight."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import Field

from lonnymq.channel_policy import Inherit, PolicyChanges
from lonnymq.commands import ChannelExplanation, ChannelPolicy, ChannelStatistics
from lonnymq.monitor.explanations import explanation
from lonnymq.monitor.known import is_known
from lonnymq.monitor.rates import POLLS_KEPT
from lonnymq.monitor.server import server_time
from lonnymq.web.access import Right
from lonnymq.web.api.parameters import NUMBER, GivenName, Name, RateText, exact
from lonnymq.web.channel_row import ChannelRow, own_row_of, read_channel, row_of
from lonnymq.web.live import Point
from lonnymq.web.view import CurrentView, View

router = APIRouter(prefix="/channel", tags=["channels"])

CONCURRENCY_MAX = 10_000
SIZE_MAX = 2**31 - 1

ABOUT_OTHERS = frozenset({"queue limit", "not dispatched", "no consumer", "next"})
"""Reasons that a person who sees only some channels does not learn, as a login that is bound to them."""


@dataclass(frozen=True, slots=True)
class LaneReason(ChannelExplanation):
    """Why the next message of a lane is not served now, and what to do about it, in sentences."""

    waits: str
    why: str
    advice: str


@dataclass(frozen=True, slots=True)
class ChannelDetail(ChannelRow):
    """If `is_known` is false, the channel has no messages and no policy, and nothing of it was ever served.
    Channels are not created: any name can be used.
    """

    at: int
    is_known: bool
    served: int
    last_served_at: int | None
    reasons: list[LaneReason]
    policy: ChannelPolicy


@dataclass(frozen=True, slots=True)
class ChannelPoint:
    """One poll. `rate` and `fair_rate` are in messages per second, and None where they are not known."""

    at: int
    rate: float | None
    fair_rate: float | None


@exact
@dataclass(frozen=True, slots=True)
class ChannelChange:
    """What is not given, or null, keeps its value. A limit of 0 means no limit, and "inherit" the limit that
    the queue sets for all channels.
    """

    name: GivenName
    max_concurrency: Annotated[int, Field(ge=0, le=CONCURRENCY_MAX), NUMBER] | Inherit | None = None
    rate: RateText | None = None
    burst: Annotated[int, Field(ge=1, le=1_000_000), NUMBER] | Inherit | None = None
    max_size: Annotated[int, Field(ge=0, le=SIZE_MAX), NUMBER] | Inherit | None = None
    weight: Annotated[float, Field(strict=True, ge=0.001, le=1000)] | None = None
    paused: Annotated[bool, Field(strict=True)] | None = None


@router.get("")
def get_channel(view: CurrentView, name: Name) -> ChannelDetail:
    """The numbers of a channel, its policy, and why it is not served now."""
    view.check(Right.READ, name)
    channel = read_channel(view, name)
    stats = channel.stats
    row = own_row_of(channel) if _is_bound(view) else row_of(view.live.summary(), channel)
    now = server_time(view.queue)
    return ChannelDetail(
        **asdict(row),
        at=now,
        is_known=is_known(stats),
        served=stats.served,
        last_served_at=stats.last_served_at,
        reasons=_reasons(view, row, now),
        policy=_policy(stats),
    )


@router.get("/series")
def list_channel_points(view: CurrentView, name: Name) -> list[ChannelPoint]:
    """The rate of a channel against what it is entitled to, one point per poll of the last minute."""
    view.check(Right.READ, name)
    snapshot = view.live.snapshot()
    channel = snapshot.channels.get(name)
    points = [point for point in view.live.points() if point.at <= snapshot.at][-POLLS_KEPT:]
    if channel is None or not points:
        return []
    rates = channel.history.trend(snapshot.poll, len(points))
    weight = None if _is_bound(view) else channel.stats.weight
    return [
        ChannelPoint(point.at, rate, _fair_rate(point, weight))
        for point, rate in zip(points, rates, strict=True)
    ]


@router.patch("")
def change_channel(view: CurrentView, change: Annotated[ChannelChange, Body()]) -> ChannelPolicy:
    """Change the limits or the weight of a channel, or pause or resume it."""
    changes = policy_changes(change)
    if not changes:
        view.check(Right.CHANNELS, change.name)
        return view.queue.channel(change.name).get()
    action = "channel.set"
    if set(changes) == {"paused"}:
        action = "channel.pause" if change.paused else "channel.resume"
    with view.action(action, Right.CHANNELS, channel=change.name, details=changes):
        return view.queue.channel(change.name).set(**changes)


def policy_changes(change: ChannelChange) -> PolicyChanges:
    """Only what is given."""
    changes: PolicyChanges = {}
    if change.max_concurrency is not None:
        changes["max_concurrency"] = change.max_concurrency
    if change.rate is not None:
        changes["rate"] = change.rate
    if change.burst is not None:
        changes["burst"] = change.burst
    if change.max_size is not None:
        changes["max_size"] = change.max_size
    if change.weight is not None:
        changes["weight"] = change.weight
    if change.paused is not None:
        changes["paused"] = change.paused
    return changes


def _fair_rate(point: Point, weight: float | None) -> float | None:
    return None if weight is None or point.fair is None else min(point.rate, point.fair * weight)


def _is_bound(view: View) -> bool:
    return view.access.channels is not None


def _policy(stats: ChannelStatistics) -> ChannelPolicy:
    return ChannelPolicy(
        stats.channel,
        stats.max_concurrency,
        stats.rate,
        stats.burst,
        stats.paused,
        stats.max_size,
        stats.weight,
        stats.inherited,
    )


def _reasons(view: View, row: ChannelRow, now: int) -> list[LaneReason]:
    found = view.queue.channel(row.channel).explain()
    if _is_bound(view):
        found = [_without_others(one) for one in found]
    return [_in_words(view, row, one, now) for one in found]


def _without_others(found: ChannelExplanation) -> ChannelExplanation:
    reason = found.reason
    if found.lane is None and reason == "not dispatched":
        reason = "empty" if found.until_at is None else "scheduled"
    elif reason in ABOUT_OTHERS:
        reason = "turn"
    if reason == "turn":
        return replace(found, reason=reason, used=None, allowed=None, ahead=None)
    return replace(found, reason=reason)


def _in_words(view: View, row: ChannelRow, found: ChannelExplanation, now: int) -> LaneReason:
    said = explanation(row.channel, found, now)
    may_change = view.access.may(Right.CHANNELS, row.channel)
    if found.reason == "turn" and row.is_noisy:
        return LaneReason(**asdict(found), waits=said.due, why=said.reason, advice=NOISY_ADVICE)
    advice = ADVICE.get((found.reason, may_change)) or ADVICE.get((found.reason, None), "")
    return LaneReason(**asdict(found), waits=said.due, why=said.reason, advice=advice)


NOISY_ADVICE = "It makes others wait. Start more workers, or give it a lower weight or a limit."
ADVICE: dict[tuple[str, bool | None], str] = {
    ("paused", True): "Resume it with the button on this page.",
    ("paused", False): "Ask whoever runs the queue to resume it.",
    ("queue paused", None): "Whoever runs the queue can resume it on the overview.",
    ("concurrency", True): "Raise its concurrency limit below, or wait for one to finish.",
    ("concurrency", False): "Wait for one to finish, or ask whoever runs the queue to raise the limit.",
    ("rate", True): "Raise its rate below, or wait.",
    ("rate", False): "Wait, or ask whoever runs the queue to raise the rate.",
    (
        "queue limit",
        None,
    ): "Wait for one to finish, or raise the limit of the whole queue with `lonnymq queue set`.",
    ("not dispatched", None): "Start a worker, if this does not change.",
    (
        "no consumer",
        None,
    ): "Start a worker that serves this lane, or see whether the workers are busy or paused.",
    ("turn", True): "Start more workers, or raise its weight below.",
}
"""What a person can do on the page, by the reason and by whether they may change the channel."""
