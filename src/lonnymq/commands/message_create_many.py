"""Queue many messages, for any mix of channels."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.message_create import Created
from lonnymq.commands.shapes import ManyRecords
from lonnymq.statement import BigInts, Boolean, Byteas, Ints, Jsonbs, Texts


@dataclass(frozen=True)
class MessageCreateMany(ManyRecords[Created]):
    """Lists of one length, or None in place of a whole optional one."""

    function = "message_create_many"
    record = Created

    channels: Texts
    contents: Byteas
    dequeue_ats: BigInts | None = None
    headers: Jsonbs | None = None
    max_attempts: Ints | None = None
    dedupe_keys: Texts | None = None
    raise_full: Boolean = False
    delays_ms: BigInts | None = None
    priorities: Ints | None = None
    costs: Ints | None = None
    lanes: Texts | None = None

    def may_repeat(self) -> bool:
        return self.dedupe_keys is not None and None not in self.dedupe_keys
