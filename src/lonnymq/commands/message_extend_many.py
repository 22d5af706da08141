"""message_extend for many, each with its token or all with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.commands.message_extend import Extended
from lonnymq.commands.result import Result
from lonnymq.statement import BigInt, BigInts, Command, Row, Uuids


@dataclass(frozen=True)
class MessageExtendMany(Command[list[Extended]]):
    """In the order given."""

    function = "message_extend_many"
    columns = "result, lease_end_at"

    ids: BigInts
    tokens: Uuids
    lease_ms: BigInt

    def decode(self, rows: Sequence[Row]) -> list[Extended]:
        return [Extended(Result(result), lease_end_at) for result, lease_end_at in rows]
