"""Hold a message for longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.commands.result import Result
from lonnymq.statement import BigInt, Command, Row, Uuid


@dataclass(frozen=True, slots=True)
class Extended:
    """`lease_end_at` is None unless it was extended."""

    result: Result
    lease_end_at: int | None


@dataclass(frozen=True)
class MessageExtend(Command[Extended]):
    function = "message_extend"
    columns = "result, lease_end_at"

    id: BigInt
    token: Uuid
    lease_ms: BigInt

    def decode(self, rows: Sequence[Row]) -> Extended:
        return Extended(Result(rows[0][0]), rows[0][1])
