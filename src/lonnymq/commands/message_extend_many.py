"""message_extend for many, each with its token or all with one."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.message_extend import Extended
from lonnymq.commands.shapes import ManyRecords
from lonnymq.statement import BigInt, BigInts, Byteas, Uuids


@dataclass(frozen=True)
class MessageExtendMany(ManyRecords[Extended]):
    function = "message_extend_many"
    record = Extended
    is_repeatable = True

    ids: BigInts
    tokens: Uuids
    lease_ms: BigInt
    states: Byteas | None = None
