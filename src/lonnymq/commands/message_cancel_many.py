"""message_cancel for many."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyOutcomes
from lonnymq.statement import BigInts


@dataclass(frozen=True)
class MessageCancelMany(ManyOutcomes):
    function = "message_cancel_many"

    ids: BigInts
