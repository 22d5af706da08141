"""Queue one message."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.result import ResultText
from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Bytea, Int, Jsonb, Text


@dataclass(frozen=True, slots=True)
class Created:
    """`id`: of the message, or of the one that holds the key when `duplicate`; None when `full`."""

    id: int | None
    result: ResultText


@dataclass(frozen=True)
class MessageCreate(OneRecord[Created]):
    function = "message_create"
    record = Created

    channel: Text
    content: Bytea
    dequeue_at: BigInt | None = None
    headers: Jsonb | None = None
    max_attempts: Int | None = None
    dedupe_key: Text | None = None
    delay_ms: BigInt | None = None
    priority: Int | None = None
    cost: Int | None = None
    lane: Text | None = None

    def may_repeat(self) -> bool:
        return self.dedupe_key is not None
