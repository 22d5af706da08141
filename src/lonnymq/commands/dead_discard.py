"""Let dead messages go for good."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyOutcomes
from lonnymq.statement import BigInts


@dataclass(frozen=True)
class DeadDiscard(ManyOutcomes):
    function = "dead_discard"

    ids: BigInts
