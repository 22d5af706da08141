"""message_cancel for many."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyEndings
from lonnymq.statement import BigInts


@dataclass(frozen=True)
class MessageCancelMany(ManyEndings):
    function = "message_cancel_many"

    ids: BigInts
