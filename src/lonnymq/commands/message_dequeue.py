"""Lease due messages, round robin over the channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from lonnymq.payload import Payloaded
from lonnymq.statement import BigInt, Bytea, Command, Int, Jsonb, Row, Statement, Text, columns_of, read


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


@dataclass(frozen=True, slots=True)
class Dequeued:
    """`again_at`, where it is not None: fold before asking again, at that time."""

    deliveries: list[Delivery]
    again_at: int | None


@dataclass(frozen=True)
class MessageDequeue(Command[Dequeued]):
    function = "message_dequeue"
    is_harmless = True  # messages of a lost answer come back when their leases end
    columns = f"{columns_of(Delivery)}, again_at"

    limit: Int = 1
    lease_ms: BigInt | None = None
    consumer: Text | None = None

    def decode(self, rows: Sequence[Row]) -> Dequeued:
        deliveries = read(Delivery, (row[:-1] for row in rows if row[0] is not None))
        return Dequeued(deliveries, rows[-1][-1] if rows else None)


@dataclass(frozen=True)
class MessageDequeueLightly(MessageDequeue):
    """Its commit does not wait for the disk: what a crash undoes is due again, as after any crash.

    For a transaction of its own. The setting is made before the function runs, which takes it back where
    something exact depends on it, and is gone with the transaction.
    """

    def statement(self, schema: str) -> Statement:
        text, parameters = super().statement(schema)
        columns, _, call = text.partition(" FROM ")
        limit = "CAST($1 AS INT)"
        after = call.replace(limit, f"CASE WHEN first.mode IS NOT NULL THEN {limit} END", 1)
        return Statement(
            f"{columns} FROM (SELECT set_config('synchronous_commit', 'off', TRUE) AS mode OFFSET 0) first"
            f" CROSS JOIN LATERAL {after}",
            parameters,
        )
