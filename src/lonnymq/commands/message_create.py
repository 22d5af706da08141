"""Queue one message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.commands.result import Result
from lonnymq.statement import BigInt, Bytea, Command, Int, Jsonb, Row, Text


@dataclass(frozen=True, slots=True)
class Created:
    """`id`: of the message, or of the one that holds the key when `duplicate`; None when `full`."""

    id: int | None
    result: Result


@dataclass(frozen=True)
class MessageCreate(Command[Created]):
    function = "message_create"
    columns = "id, result"

    channel: Text
    content: Bytea
    dequeue_at: BigInt | None = None
    headers: Jsonb | None = None
    max_attempts: Int | None = None
    dedupe_key: Text | None = None

    def decode(self, rows: Sequence[Row]) -> Created:
        return Created(rows[0][0], Result(rows[0][1]))
