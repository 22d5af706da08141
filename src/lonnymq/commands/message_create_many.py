"""Queue many messages, for any mix of channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.commands.message_create import Created
from lonnymq.commands.result import Result
from lonnymq.statement import BigInts, Byteas, Command, Ints, Jsonbs, Row, Texts


@dataclass(frozen=True)
class MessageCreateMany(Command[list[Created]]):
    """Lists of one length, or None in place of a whole optional one."""

    function = "message_create_many"
    columns = "id, result"

    channels: Texts
    contents: Byteas
    dequeue_ats: BigInts | None = None
    headers: Jsonbs | None = None
    max_attempts: Ints | None = None
    dedupe_keys: Texts | None = None

    def decode(self, rows: Sequence[Row]) -> list[Created]:
        return [Created(message_id, Result(result)) for message_id, result in rows]
