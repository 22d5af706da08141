"""Reading the history: from its view, as there is nothing to decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.payload import Payloaded
from lonnymq.statement import (
    BigInt,
    Bytea,
    Command,
    Int,
    Jsonb,
    Row,
    Statement,
    Text,
    columns_of,
    identifier,
    read,
)


@dataclass(frozen=True, slots=True)
class Finished(Payloaded):
    """A message that finished: `outcome` is completed, dead or cancelled. Content only where it was kept."""

    id: int
    channel: str
    outcome: str
    created_at: int
    dequeue_at: int
    first_dequeued_at: int | None
    dequeued_at: int | None
    finished_at: int
    attempts: int
    consumer: str | None
    error: str | None
    dedupe_key: str | None
    lane: str
    priority: int
    cost: int
    headers: Jsonb
    content_bytes: int
    content: Bytea | None


@dataclass(frozen=True)
class FinishedList(Command[list[Finished]]):
    """Each way has an index: that of the writers' transactions, or of a channel's times."""

    function = "history"
    is_harmless = True

    channel: Text | None
    since: BigInt | None
    limit: Int

    def statement(self, schema: str) -> Statement:
        one_channel = "TRUE" if self.channel is None else "channel = CAST($1 AS TEXT)"
        order = "xid DESC, id DESC" if self.channel is None else "finished_at DESC, id DESC"
        text = (
            f"SELECT {columns_of(Finished)} FROM {identifier(schema)}.history WHERE {one_channel}"
            f" AND finished_at >= CAST($2 AS BIGINT) ORDER BY {order} LIMIT CAST($3 AS INT)"
        )
        parameters = (self.channel, self.since or 0, self.limit)
        if self.channel is None:  # drivers want every parameter used
            return Statement(text.replace("$2", "$1").replace("$3", "$2"), parameters[1:])
        return Statement(text, parameters)

    def decode(self, rows: Sequence[Row]) -> list[Finished]:
        return read(Finished, rows)
