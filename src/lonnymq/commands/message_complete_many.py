"""message_complete for many, each with its token or all with one."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyEndings
from lonnymq.statement import BigInts, Uuids


@dataclass(frozen=True)
class MessageCompleteMany(ManyEndings):
    function = "message_complete_many"

    ids: BigInts
    tokens: Uuids
