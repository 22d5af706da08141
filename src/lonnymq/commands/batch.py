"""Batches: messages that are enqueued under one name and counted together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lonnymq.commands.answers import Count, ManyRecords, OneOrNone, OneRecord, OneResult, ResultText
from lonnymq.statement import BigInt, Bytea, Int, Jsonb, Text, command

BATCH_HEADER = "batch"
"""The header of a callback with the batch and its counts."""


@command
class BatchOpen(Count):
    """Open a batch. Returns its id. A callback has a channel, a content and options of message_create."""

    function = "batch_open"

    name: Text
    complete_channel: Text | None = None
    complete_content: Bytea | None = None
    complete_options: Jsonb | None = None
    failure_channel: Text | None = None
    failure_content: Bytea | None = None
    failure_options: Jsonb | None = None


@command
class BatchClose(OneResult):
    """Close a batch: `closed` or `not_found`."""

    function = "batch_close"
    is_repeatable = True

    id: BigInt


@dataclass(frozen=True, slots=True)
class CancelledBatch:
    """The result is `cancelled`, `finished` (nothing was left to cancel) or `not_found`. `messages` is how
    many messages were cancelled.
    """

    result: ResultText
    messages: int


@command
class BatchCancel(OneRecord[CancelledBatch]):
    """Cancel a batch. Call it until the result is not `more`."""

    function = "batch_cancel"
    is_repeatable = True
    record = CancelledBatch

    id: BigInt
    limit: Int = 10_000


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch and its counts. The status is `open`, `closed`, `finished` or `cancelled`.

    `total` is the sum of the five counts. `cancelled` also counts discarded messages. `failed_id` is the
    message that died first, at `failed_at`.
    """

    id: int
    name: str
    status: str
    total: int
    waiting: int
    leased: int
    completed: int
    dead: int
    cancelled: int
    created_at: int
    closed_at: int | None
    cancelled_at: int | None
    failed_at: int | None
    failed_id: int | None
    finished_at: int | None


@command
class BatchGet(OneOrNone[BatchStatus]):
    """Read one batch; None if there is none with this id."""

    function = "batch_get"
    is_harmless = True
    record = BatchStatus

    id: BigInt


@command
class BatchList(ManyRecords[BatchStatus]):
    """List batches, the newest first, page by page."""

    function = "batch_list"
    is_harmless = True
    record = BatchStatus

    name: Text | None = None
    status: Text | None = None
    after: BigInt | None = None
    limit: Int = 100


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """What a callback is told about its batch: its counts when the callback was created. `failed_id` is the
    message that died first.
    """

    id: int
    name: str
    total: int = 0
    completed: int = 0
    dead: int = 0
    cancelled: int = 0
    failed_id: int | None = None

    @classmethod
    def of(cls, headers: Mapping[str, Any] | None) -> BatchSummary | None:
        """From the headers of a message; None if it is not a callback."""
        found = (headers or {}).get(BATCH_HEADER)
        return cls(**found) if isinstance(found, dict) and found.keys() == set(cls.__slots__) else None
