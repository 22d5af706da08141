"""Let dead messages go for good."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyEndings
from lonnymq.statement import BigInts


@dataclass(frozen=True)
class DeadDiscard(ManyEndings):
    function = "dead_discard"

    ids: BigInts
