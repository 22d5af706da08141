"""The policy of a channel: its limits, its weight, whether it is paused. Each part is described once, here,
for the calls of a queue and for `lonnymq channels`.

To add a part, add it to each class in this file and to POLICIES, and to the SQL: the table channel and the
types beside it in tables/0002_limits.sql, the functions channel_set, channel_policy_of and channel_stats_of,
and the function that applies it. If channels can inherit it from the queue, add it to channel_limits,
inherit_check and the settings of the queue, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from lonnymq.rate import Rate, interval_us, rate_text
from lonnymq.statement import BigInt, Boolean, Int, Numeric, SqlType, Texts, parameters

Inherit = Literal["inherit"]
INHERIT: Inherit = "inherit"
"""Given in place of a limit: the channel has the one that the queue sets for its channels."""

RateText = Annotated[str, SqlType("BIGINT", load=rate_text, column="release_interval_us")]


def _policy_names(columns: list[str]) -> list[str]:
    return ["rate" if column == "release_interval_us" else column for column in columns]


PolicyNames = Annotated[list[str], SqlType("TEXT[]", load=_policy_names)]


class PolicyChanges(TypedDict, total=False):
    """The parts of a policy to change. None, or a part that is not given, keeps its value. A limit of 0 means
    no limit, and "inherit" the limit that the queue sets for its channels.
    """

    max_concurrency: int | Inherit | None
    """How many messages may be leased at once."""
    rate: Rate | None
    """How many messages may be leased per time: a text such as "20/s", or a number per second."""
    burst: int | Inherit | None
    """How many of these may be leased at once after a pause, 1 to 1,000,000; 1 unless set."""
    paused: bool | None
    """Whether the channel is paused."""
    max_size: int | Inherit | None
    """How many messages may wait or be leased."""
    weight: float | None
    """0.001 to 1,000. A channel with weight 2 gets twice the share of one with weight 1."""


@dataclass(frozen=True, slots=True)
class ChannelPolicy:
    """How a channel is served. A limit of None means no limit. `inherited` names the parts that the queue
    sets for its channels. A channel with weight 2 gets twice the share of a channel with weight 1.
    """

    channel: str
    max_concurrency: int | None
    rate: RateText | None
    burst: int
    paused: bool
    max_size: int | None
    weight: Numeric
    inherited: PolicyNames


@parameters
class PolicyParameters:
    """The optional parameters of the SQL function channel_set. None keeps a value."""

    max_concurrency: Int | None = None
    release_interval_us: BigInt | None = None
    burst: Int | None = None
    paused: Boolean | None = None
    max_size: Int | None = None
    weight: Numeric | None = None
    inherit: Texts | None = None


def policy_parameters(changes: PolicyChanges) -> dict[str, Any]:
    """The changes as keyword arguments for PolicyParameters.

    >>> policy_parameters({"rate": "20/s", "max_size": "inherit"})
    {'release_interval_us': 50000, 'inherit': ['max_size']}
    """
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    columns = {name: "release_interval_us" if name == "rate" else name for name in given}
    inherited = [columns[name] for name, value in given.items() if value == INHERIT and name in INHERITED]
    values = {
        columns[name]: interval_us(value) if name == "rate" else value
        for name, value in given.items()
        if columns[name] not in inherited
    }
    return values | ({"inherit": inherited} if inherited else {})


def _limit(text: str) -> int | Inherit:
    return INHERIT if text == INHERIT else _at_least(0, text)


def _burst(text: str) -> int | Inherit:
    return INHERIT if text == INHERIT else _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a whole number nor 'inherit'") from None
    if number < least:
        raise ValueError(f"{number} is less than {least}")
    return number


def _rate(text: str) -> str:
    if text != INHERIT:
        interval_us(text)
    return text


@dataclass(frozen=True)
class PolicyPart:
    """How one part of a policy is given on the command line, and shown. `read` makes its value from text;
    None means that it is a number.
    """

    title: str
    help: str
    metavar: str = ""
    read: Callable[[str], object] | None = None
    least: float | None = None
    most: float | None = None
    usual: object = None
    """What a channel has if nobody set this part."""


POLICIES: Mapping[str, PolicyPart] = {
    "max_concurrency": PolicyPart(
        "max concurrency",
        "How many messages may be worked on at once. 0: no limit; inherit: as the queue sets it.",
        "N|inherit",
        _limit,
    ),
    "rate": PolicyPart(
        "rate",
        "How many messages may be started per time, such as 20/s, 100/min or 1/5min. 0: no limit;"
        " inherit: as the queue sets it.",
        "RATE|inherit",
        _rate,
    ),
    "burst": PolicyPart(
        "burst",
        "How many messages the rate lets start at once after a pause. inherit: as the queue sets it.",
        "N|inherit",
        _burst,
        usual=1,
    ),
    "max_size": PolicyPart(
        "max size",
        "How many messages may wait or be worked on. 0: no limit; inherit: as the queue sets it.",
        "N|inherit",
        _limit,
    ),
    "weight": PolicyPart(
        "weight",
        "Its share: a channel with weight 2 gets twice as much as one with weight 1.",
        least=0.001,
        most=1000,
        usual=1,
    ),
}
"""What `lonnymq channels set` can change. Pausing a channel has commands of its own."""
INHERITED = POLICIES.keys() - {"weight"}
"""What a channel can inherit from the queue."""
