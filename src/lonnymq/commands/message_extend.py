"""Hold a message for longer."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.result import ResultText
from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Bytea, Uuid


@dataclass(frozen=True, slots=True)
class Extended:
    """`lease_end_at` is None unless it was extended."""

    result: ResultText
    lease_end_at: int | None


@dataclass(frozen=True)
class MessageExtend(OneRecord[Extended]):
    function = "message_extend"
    record = Extended
    is_repeatable = True

    id: BigInt
    token: Uuid
    lease_ms: BigInt
    state: Bytea | None = None
