"""Lease due messages, in fair turns over the channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lonnymq.payload import Payloaded
from lonnymq.statement import BigInt, Boolean, Bytea, Command, Int, Jsonb, Row, Text, Texts, columns_of, read


@dataclass(frozen=True, slots=True)
class Delivery(Payloaded):
    """A message that the caller holds until `lease_end_at`, under `token`."""

    id: int
    channel: str
    content: Bytea
    headers: Jsonb
    state: Bytea | None
    attempts: int
    token: UUID
    lease_end_at: int
    lane: str = "default"


@dataclass(frozen=True, slots=True)
class Dequeued:
    """`again_at`, where it is not None: dispatch before asking again, at that time."""

    deliveries: list[Delivery]
    again_at: int | None


@dataclass(frozen=True)
class MessageDequeue(Command[Dequeued]):
    """`lanes` None: all. With `async_commit`, what a crash undoes is due again, as after any crash."""

    function = "message_dequeue"
    is_harmless = True  # messages of a lost answer come back when their leases end
    columns = f"{columns_of(Delivery)}, again_at"

    limit: Int = 1
    lease_ms: BigInt | None = None
    consumer: Text | None = None
    lanes: Texts | None = None
    async_commit: Boolean = False

    def decode(self, rows: Sequence[Row]) -> Dequeued:
        deliveries = read(Delivery, (row[:-1] for row in rows if row[0] is not None))
        return Dequeued(deliveries, rows[-1][-1] if rows else None)
