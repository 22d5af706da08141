"""The messages of a channel or of all, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyRecords
from lonnymq.statement import Int, Jsonb, Text


@dataclass(frozen=True, slots=True)
class ListedMessage:
    """Without its content. `cursor` is where the next page begins."""

    id: int
    channel: str
    status: str
    dequeue_at: int
    created_at: int
    lease_end_at: int | None
    attempts: int
    max_attempts: int | None
    consumer: str | None
    error: str | None
    dedupe_key: str | None
    lane: str
    priority: int
    cost: int
    is_cancelled: bool
    headers: Jsonb
    content_bytes: int
    cursor: str


@dataclass(frozen=True)
class MessageList(ManyRecords[ListedMessage]):
    function = "message_list"
    is_harmless = True
    record = ListedMessage

    channel: Text | None = None
    status: Text = "waiting"
    after: Text | None = None
    limit: Int = 100
