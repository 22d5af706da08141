"""Put a message back; with an error, an attempt is used up."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneEnding
from lonnymq.statement import BigInt, Bytea, Text, Uuid


@dataclass(frozen=True)
class MessageRetry(OneEnding):
    function = "message_retry"

    id: BigInt
    token: Uuid
    dequeue_at: BigInt | None = None
    state: Bytea | None = None
    error: Text | None = None
    delay_ms: BigInt | None = None
