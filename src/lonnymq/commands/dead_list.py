"""The dead messages of a channel or of all, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyRecords
from lonnymq.statement import BigInt, Int, Jsonb, Text


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """Without its content."""

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
    function = "dead_list"
    is_harmless = True
    record = DeadMessage

    channel: Text | None = None
    error: Text | None = None
    after: BigInt = 0
    limit: Int = 100
