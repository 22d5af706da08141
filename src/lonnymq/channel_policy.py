"""The policy of a channel: its limits, its weight, whether it is paused. Each part is described once, here,
for the calls of a queue and for `lonnymq channels`.

To add a part, add it to each class in this file and to POLICIES, and to the SQL: the table channel and the
types beside it in tables/0002_limits.sql, the functions channel_set, channel_policy_of and channel_stats_of,
and the function that applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from lonnymq.message_options import Duration
from lonnymq.statement import BigInt, Boolean, Int, Numeric


class PolicyChanges(TypedDict, total=False):
    """The parts of a policy to change. None, or a part that is not given, keeps its value."""

    max_concurrency: int | None
    """How many messages may be leased at once. 0 removes the limit."""
    release_interval: Duration | None
    """The shortest time between two messages: a timedelta, or seconds. 0 removes the limit."""
    paused: bool | None
    """Whether the channel is paused."""
    max_size: int | None
    """How many messages may wait or be leased. 0 removes the limit."""
    weight: float | None
    """0.001 to 1,000. A channel with weight 2 gets twice the share of one with weight 1."""


@dataclass(frozen=True, slots=True)
class ChannelPolicy:
    """How a channel is served. None, or an interval of 0, means no such limit. A channel with weight 2 gets
    twice the share of a channel with weight 1.
    """

    channel: str
    max_concurrency: int | None
    release_interval_ms: int
    paused: bool
    max_size: int | None
    weight: Numeric


@dataclass(frozen=True, kw_only=True)
class PolicyParameters:
    """The optional parameters of the SQL function channel_set. None keeps a value."""

    max_concurrency: Int | None = None
    release_interval_ms: BigInt | None = None
    paused: Boolean | None = None
    max_size: Int | None = None
    weight: Numeric | None = None


@dataclass(frozen=True)
class PolicyPart:
    """How one part of a policy is given and shown. `field` is its name in ChannelPolicy and in SQL."""

    field: str
    title: str
    help: str
    type: type
    least: float = 0
    most: float | None = None
    unit: str = ""
    usual: object = None
    """What a channel has if nobody set this part."""


POLICIES: Mapping[str, PolicyPart] = {
    "max_concurrency": PolicyPart(
        "max_concurrency",
        "max concurrency",
        "How many messages may be worked on at once; 0 removes the limit.",
        int,
    ),
    "release_interval": PolicyPart(
        "release_interval_ms",
        "release interval",
        "Seconds between two messages, at least; 0 removes the limit.",
        float,
        unit=" ms",
        usual=0,
    ),
    "max_size": PolicyPart(
        "max_size", "max size", "How many messages may wait or be worked on; 0 removes the limit.", int
    ),
    "weight": PolicyPart(
        "weight",
        "weight",
        "Its share: a channel with weight 2 gets twice as much as one with weight 1.",
        float,
        least=0.001,
        most=1000,
        usual=1,
    ),
}
"""What `lonnymq channels set` can change. Pausing a channel has commands of its own."""
