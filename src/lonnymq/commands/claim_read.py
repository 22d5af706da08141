"""The messages of claims, in parts."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyRecords
from lonnymq.statement import BigInt, Bytea, Int, Jsonb, Text


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """A message of the claim of number `seq`."""

    seq: int
    id: int
    channel: str
    content: Bytea
    headers: Jsonb | None
    state: Bytea | None
    attempts: int
    dedupe_key: str | None
    lane: str
    priority: int
    cost: int
    created_at: int
    dequeue_at: int
    dequeued_at: int


@dataclass(frozen=True)
class ClaimRead(ManyRecords[ClaimedMessage]):
    function = "claim_read"
    is_harmless = True
    record = ClaimedMessage

    claimant: Text
    generation: BigInt
    after: BigInt
    upto: BigInt
    part: Int = 0
    parts: Int = 1
