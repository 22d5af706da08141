"""What waits goes; what a worker holds is marked."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneEnding
from lonnymq.statement import BigInt


@dataclass(frozen=True)
class MessageCancel(OneEnding):
    function = "message_cancel"

    id: BigInt
