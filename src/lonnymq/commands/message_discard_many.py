"""message_discard for many, each with its token or all with one."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyEndings
from lonnymq.statement import BigInts, Texts, Uuids


@dataclass(frozen=True)
class MessageDiscardMany(ManyEndings):
    function = "message_discard_many"

    ids: BigInts
    tokens: Uuids
    reasons: Texts | None = None
