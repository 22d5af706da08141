"""List dead letters, retry them, discard them."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.answers import ManyEndings, ManyRecords, OneRecord
from lonnymq.statement import BigInt, BigInts, Int, Jsonb, Text


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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class DeadRetry(ManyEndings):
    """Put dead letters back into their channels, with a fresh count of attempts."""

    function = "dead_retry"

    ids: BigInts
    dequeue_at: BigInt | None = None


@dataclass(frozen=True, slots=True)
class RetriedAll:
    """`refused` counts those whose channel is full or whose dedupe key is taken. After the last page,
    `next_after` is None.
    """

    retried: int
    refused: int
    next_after: int | None


@dataclass(frozen=True)
class DeadRetryAll(OneRecord[RetriedAll]):
    """Retry the dead letters of a channel or with an error, up to `limit` per call."""

    function = "dead_retry_all"
    record = RetriedAll

    channel: Text | None = None
    error: Text | None = None
    dequeue_at: BigInt | None = None
    after: BigInt = 0
    limit: Int = 1000


@dataclass(frozen=True)
class DeadDiscard(ManyEndings):
    """Delete dead letters."""

    function = "dead_discard"

    ids: BigInts


@dataclass(frozen=True, slots=True)
class DiscardedAll:
    """How many were deleted. `next_after` is None after the last page."""

    discarded: int
    next_after: int | None


@dataclass(frozen=True)
class DeadDiscardAll(OneRecord[DiscardedAll]):
    """Delete the dead letters of a channel or with an error, up to `limit` per call."""

    function = "dead_discard_all"
    record = DiscardedAll

    channel: Text | None = None
    error: Text | None = None
    after: BigInt = 0
    limit: Int = 1000
