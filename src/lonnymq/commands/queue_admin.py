"""The queue's settings, statistics, lanes, bound logins and maintenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from lonnymq.commands.answers import Count, ManyRecords, Nothing, OneRecord
from lonnymq.rate import rate_text
from lonnymq.statement import BigInt, Boolean, Command, Int, Row, SqlType, Text, Texts, command


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """`max_concurrency` limits all channels together; None means no limit. `channel_max_concurrency`,
    `channel_rate`, `channel_burst` and `channel_max_size` are the limits of every channel that does not set
    its own. LISTEN to `notify_channel`.
    """

    content_max_bytes: int
    lease_ms: int
    lease_max_ms: int
    max_attempts: int
    max_concurrency: int | None
    paused: bool
    history: bool
    history_content: bool
    history_keep_ms: int
    batch_keep_ms: int
    audit_keep_ms: int
    notify: bool
    channel_max_concurrency: int | None
    channel_rate: Annotated[
        str | None, SqlType("BIGINT", load=rate_text, column="channel_release_interval_us")
    ]
    channel_burst: int
    channel_max_size: int | None
    notify_channel: str


@command
class QueueGet(OneRecord[QueueSettings]):
    """Read the queue's settings."""

    function = "queue_get"
    is_harmless = True
    record = QueueSettings


@command
class QueueSet(OneRecord[QueueSettings]):
    """Change the queue's settings. None keeps a value."""

    function = "queue_set"
    is_repeatable = True
    record = QueueSettings

    content_max_bytes: Int | None = None
    lease_max_ms: BigInt | None = None
    max_attempts: Int | None = None
    lease_ms: BigInt | None = None
    max_concurrency: Int | None = None
    paused: Boolean | None = None
    history: Boolean | None = None
    history_content: Boolean | None = None
    history_keep_ms: BigInt | None = None
    notify: Boolean | None = None
    channel_max_concurrency: Int | None = None
    channel_release_interval_us: BigInt | None = None
    channel_burst: Int | None = None
    channel_max_size: Int | None = None
    batch_keep_ms: BigInt | None = None
    audit_keep_ms: BigInt | None = None


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """What the queue holds. `served` and `last_served_at` are as of the last dispatch. `workers` is how many
    workers are alive, and `unknown_tasks` are those that they have met and that none of them knows.
    """

    waiting: int | None
    due: int | None
    scheduled: int | None
    leased: int
    dead: int
    oldest_due_ms: int | None
    served: int
    last_served_at: int | None
    running: int | None
    max_concurrency: int | None
    paused: bool
    blocked_by: str | None
    workers: int
    unknown_tasks: list[str]


@command
class QueueStats(OneRecord[QueueStatistics]):
    """Read the queue's statistics."""

    function = "queue_stats"
    is_harmless = True
    record = QueueStatistics


@dataclass(frozen=True, slots=True)
class Lane:
    """As of the last dispatch: how many due messages wait in a lane, and how many of these are ready."""

    lane: str
    waiting: int
    ready: int


@command
class LaneList(ManyRecords[Lane]):
    """List the lanes."""

    function = "lane_list"
    is_harmless = True
    record = Lane


@dataclass(frozen=True, slots=True)
class Credential:
    """A login role, and the channels that it is bound to."""

    role: str
    channels: list[str]


@command
class CredentialBind(Nothing):
    """Bind a login role to channels; None removes the binding."""

    function = "credential_bind"
    is_repeatable = True

    role: Text
    channels: Texts | None


@command
class CredentialList(ManyRecords[Credential]):
    """List the login roles that are bound to channels."""

    function = "credential_list"
    is_harmless = True
    record = Credential


@command
class BoundChannels(Command[list[str] | None]):
    """The channels that the caller's login is bound to; None if it is not bound."""

    function = "bound_channels"
    is_harmless = True

    def decode(self, rows: Sequence[Row]) -> list[str] | None:
        return None if rows[0][0] is None else list(rows[0][0])


@command
class Maintain(Count):
    """Delete what is no longer needed. Returns how many rows were deleted."""

    function = "maintain"
    is_harmless = True

    limit: Int = 10000


@command
class Rebuild(Nothing):
    """Build everything that is derived from the messages again."""

    function = "rebuild"
    is_harmless = True
