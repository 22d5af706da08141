"""Give a waiting message another time: without one, now."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneResult
from lonnymq.statement import BigInt


@dataclass(frozen=True)
class MessageReschedule(OneResult):
    function = "message_reschedule"
    is_repeatable = True

    id: BigInt
    dequeue_at: BigInt | None = None
