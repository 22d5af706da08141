"""List dead letters, group them, retry them, discard them."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.answers import ManyEndings, ManyRecords, OneRecord
from lonnymq.statement import BigInt, BigInts, Boolean, Int, Jsonb, Text, command


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A dead letter, without its content."""

    id: int
    channel: str
    dead_at: int
    created_at: int
    attempts: int
    max_attempts: int | None
    consumer: str | None
    error: str | None
    past_errors: Jsonb
    dedupe_key: str | None
    lane: str
    priority: int
    cost: int
    headers: Jsonb
    content_bytes: int


@command
class DeadList(ManyRecords[DeadMessage]):
    """List the dead letters of one channel or of all, page by page."""

    function = "dead_list"
    is_harmless = True
    record = DeadMessage

    channel: Text | None = None
    error: Text | None = None
    after: BigInt = 0
    limit: Int = 100
    lane: Text | None = None
    fingerprint: Text | None = None


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead letters of one task whose errors have the same pattern.

    In `pattern`, `#` stands for numbers and ids, and `'...'` for what was quoted. `channel` is None unless
    the groups are by channel. With `has_more`, there are older dead letters, which are not counted.
    """

    fingerprint: str
    pattern: str | None
    task: str | None
    channel: str | None
    messages: int
    channels: int
    first_dead_at: int
    last_dead_at: int
    example_id: int
    has_more: bool


@command
class DeadGroups(ManyRecords[DeadGroup]):
    """Group dead letters by what went wrong, the largest group first. Reads the newest `scan` of them."""

    function = "dead_groups"
    is_harmless = True
    record = DeadGroup

    channel: Text | None = None
    by_channel: Boolean = False
    limit: Int = 100
    scan: Int = 10_000


@command
class DeadRetry(ManyEndings):
    """Put dead letters back into their channels, with a fresh count of attempts."""

    function = "dead_retry"

    ids: BigInts
    dequeue_at: BigInt | None = None
    spread_ms: BigInt = 0


@dataclass(frozen=True, slots=True)
class RetriedAll:
    """`refused` counts those whose channel is full or whose dedupe key is taken. After the last page,
    `next_after` is None. Of a dry run, `retried` counts those that would be tried.
    """

    retried: int
    refused: int
    next_after: int | None


@command
class DeadRetryAll(OneRecord[RetriedAll]):
    """Retry the dead letters of a channel, with an error or of a group, up to `limit` per call."""

    function = "dead_retry_all"
    record = RetriedAll

    channel: Text | None = None
    error: Text | None = None
    dequeue_at: BigInt | None = None
    after: BigInt = 0
    limit: Int = 1000
    fingerprint: Text | None = None
    spread_ms: BigInt = 0
    dry_run: Boolean = False


@command
class DeadDiscard(ManyEndings):
    """Delete dead letters."""

    function = "dead_discard"

    ids: BigInts


@dataclass(frozen=True, slots=True)
class DiscardedAll:
    """How many were deleted. `next_after` is None after the last page."""

    discarded: int
    next_after: int | None


@command
class DeadDiscardAll(OneRecord[DiscardedAll]):
    """Delete the dead letters of a channel, with an error or of a group, up to `limit` per call."""

    function = "dead_discard_all"
    record = DiscardedAll

    channel: Text | None = None
    error: Text | None = None
    after: BigInt = 0
    limit: Int = 1000
    fingerprint: Text | None = None
