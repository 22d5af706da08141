"""The policy of a channel, its statistics, why it is not served, and deleting it."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.channel_policy import ChannelPolicy, PolicyParameters
from lonnymq.commands.answers import ManyRecords, OneRecord, ResultText
from lonnymq.statement import Boolean, Int, Text, command


@command
class ChannelGet(OneRecord[ChannelPolicy]):
    """Read the policy of a channel."""

    function = "channel_get"
    is_harmless = True
    record = ChannelPolicy

    channel: Text


@command
class ChannelSet(PolicyParameters, OneRecord[ChannelPolicy]):
    """Change the policy of a channel. None keeps a value."""

    function = "channel_set"
    is_repeatable = True
    record = ChannelPolicy

    channel: Text


@dataclass(frozen=True, slots=True)
class ChannelStatistics(ChannelPolicy):
    """What a channel holds, why its next message is not served now, and its policy.

    `scheduled` and `dead` are counted up to a cap.
    """

    waiting: int
    due: int
    scheduled: int
    leased: int
    dead: int
    oldest_due_ms: int | None
    served: int
    last_served_at: int | None
    blocked_by: str | None


@command
class ChannelStats(OneRecord[ChannelStatistics]):
    """Read the statistics of a channel."""

    function = "channel_stats"
    is_harmless = True
    record = ChannelStatistics

    channel: Text
    cap: Int = 10000


@dataclass(frozen=True, slots=True)
class ChannelExplanation:
    """Why a channel's next message in a lane is not served now. `lane` is None if nothing is due.

    `reason` is `empty`, `scheduled`, `paused`, `queue paused`, `concurrency`, `rate`, `queue limit`,
    `not dispatched`, `no consumer`, `turn` or `next`. `leased` counts all lanes of the channel.
    """

    lane: str | None
    due: int
    leased: int
    reason: str
    since_at: int | None
    """Since when its next message is due, in Unix milliseconds."""
    until_at: int | None
    """When its rate allows the next message, or when the next scheduled one is due."""
    used: int | None
    """How much of a concurrency limit is in use."""
    allowed: int | None
    """That limit."""
    ahead: int | None
    """With `turn` and `next`: about how many messages of all channels are served before."""


@command
class ChannelExplain(ManyRecords[ChannelExplanation]):
    """Say why a channel is not served now, lane by lane."""

    function = "channel_explain"
    is_harmless = True
    record = ChannelExplanation

    channel: Text


@command
class ChannelList(ManyRecords[ChannelStatistics]):
    """List channels with their statistics: by name, by who is served next, or by what waits."""

    function = "channel_list"
    is_harmless = True
    record = ChannelStatistics

    order: Text = "name"
    after: Text | None = None
    limit: Int = 50
    prefix: Text | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """If the result is `more`, call again."""

    result: ResultText
    messages: int


@command
class ChannelDelete(OneRecord[Deleted]):
    """Delete a channel's policy and statistics, and its messages if asked to."""

    function = "channel_delete"
    record = Deleted

    channel: Text
    with_messages: Boolean = False
    limit: Int = 10000
