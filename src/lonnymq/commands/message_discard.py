"""The work will not be done: the message goes, and is not tried again."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneEnding
from lonnymq.statement import BigInt, Text, Uuid


@dataclass(frozen=True)
class MessageDiscard(OneEnding):
    function = "message_discard"

    id: BigInt
    token: Uuid
    reason: Text | None = None
