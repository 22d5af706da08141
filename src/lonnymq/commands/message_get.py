"""All there is to know of a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.payload import Payloaded
from lonnymq.statement import BigInt, Bytea, Command, Jsonb, Row, columns_of, read


@dataclass(frozen=True, slots=True)
class Message(Payloaded):
    """One that waits, is leased or dead."""

    id: int
    channel: str
    status: str
    dequeue_at: int
    created_at: int
    first_dequeued_at: int | None
    dequeued_at: int | None
    lease_end_at: int | None
    dead_at: int | None
    attempts: int
    max_attempts: int | None
    consumer: str | None
    error: str | None
    past_errors: Jsonb
    dedupe_key: str | None
    lane: str
    priority: int
    cost: int
    is_cancelled: bool
    headers: Jsonb
    state: Bytea | None
    content: Bytea


@dataclass(frozen=True)
class MessageGet(Command[Message | None]):
    function = "message_get"
    is_harmless = True
    columns = columns_of(Message)

    id: BigInt

    def decode(self, rows: Sequence[Row]) -> Message | None:
        return next(iter(read(Message, rows)), None)
