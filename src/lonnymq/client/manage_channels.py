"""The calls for channels and lanes: policy, statistics, why one is not served, delete."""

from __future__ import annotations

from typing import Unpack

from lonnymq.channel_policy import PolicyChanges, policy_parameters
from lonnymq.client.calls import Request, ask, shows
from lonnymq.client.produce import check_names
from lonnymq.commands import (
    ChannelDelete,
    ChannelExplain,
    ChannelExplanation,
    ChannelGet,
    ChannelList,
    ChannelPolicy,
    ChannelSet,
    ChannelStatistics,
    ChannelStats,
    Deleted,
    Lane,
    LaneList,
    PastPolicy,
    PolicyList,
)
from lonnymq.errors import InvalidChannelPolicy, InvalidLimit


def channels(
    *,
    order: str = "name",
    prefix: str | None = None,
    after: str | None = None,
    limit: int = 50,
    conn: object | None = None,
) -> Request[list[ChannelStatistics]]:
    """A page of channels with their statistics, ordered by `name`, by who is served `next`, or by how much
    is `waiting`. By name, the next page starts `after` the last channel, and with `prefix` only channels
    whose names begin with it are listed.
    """
    return ask(ChannelList(order, after, limit, prefix), conn)


def lanes(*, conn: object | None = None) -> Request[list[Lane]]:
    """The lanes, with how many due messages wait in each."""
    return ask(LaneList(), conn)


def policies(
    *, channel: str | None = None, limit: int = 100, conn: object | None = None
) -> Request[list[PastPolicy]]:
    """How the policies of one channel changed, or of all channels and of the queue: one element per change,
    the newest first. Changes are kept as long as the history of the time before them (see Queue.set).
    """
    if type(limit) is not int or limit < 1:
        raise InvalidLimit(f"limit: {limit!r} is not a whole number of 1 or more", "give an int")
    return ask(PolicyList(channel, limit), conn)


def get_channel(name: str, *, conn: object | None = None) -> Request[ChannelPolicy]:
    """The channel's policy."""
    return ask(ChannelGet(name), conn)


@shows(PolicyChanges)
def set_channel(
    name: str, *, conn: object | None = None, **changes: Unpack[PolicyChanges]
) -> Request[ChannelPolicy]:
    """Change the channel's policy. Parts that are not given keep their values. A limit of 0 means no limit,
    and "inherit" the limit that the queue sets for its channels (see Queue.set).

    At most `max_concurrency` of its messages are leased at once. They are leased at most at the `rate`, such
    as "20/s" or "100/min", and after a pause up to `burst` of them at once. At most `max_size` wait or are
    leased. A channel with `weight` 2 gets twice the share of one with weight 1, which is the default (0.001
    to 1,000). While it is `paused`, nothing of it is served.

        queue.channel("acme").set(max_concurrency=2, rate="20/s", burst=50)
    """
    check_names("set", changes, PolicyChanges, "conn")
    weight = changes.get("weight")
    if weight is not None and type(weight) not in {int, float}:
        raise InvalidChannelPolicy(f"weight: {weight!r} is not a number", "give an int or a float")
    return ask(ChannelSet(name, **policy_parameters(changes)), conn)


def channel_stats(name: str, *, cap: int = 10_000, conn: object | None = None) -> Request[ChannelStatistics]:
    """What the channel holds, and why it is not served now. Counts scheduled and dead ones up to `cap`."""
    return ask(ChannelStats(name, cap), conn)


def explain_channel(name: str, *, conn: object | None = None) -> Request[list[ChannelExplanation]]:
    """Why the channel is not served now: one explanation per lane in which it has due messages, or one
    whose lane is None if it has none.

        for found in queue.channel("acme").explain():
            print(found.lane, found.due, found.reason)
    """
    return ask(ChannelExplain(name), conn)


def delete_channel(
    name: str, *, with_messages: bool = False, limit: int = 10_000, conn: object | None = None
) -> Request[Deleted]:
    """Delete the channel if it is empty, or `with_messages`: up to `limit` per call, then `more`."""
    return ask(ChannelDelete(name, with_messages, limit), conn)
