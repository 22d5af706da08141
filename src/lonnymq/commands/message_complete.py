"""The work is done: the message goes, if the caller still holds it."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneEnding
from lonnymq.statement import BigInt, Uuid


@dataclass(frozen=True)
class MessageComplete(OneEnding):
    function = "message_complete"

    id: BigInt
    token: Uuid
