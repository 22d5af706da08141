"""Bring what was appended into line. True: work was left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.commands.lightly import Lightly
from lonnymq.statement import Command, Int, Row


@dataclass(frozen=True)
class WakeFold(Command[bool]):
    function = "wake_fold"
    is_harmless = True

    limit: Int = 1000
    quiet_ms: Int = 0

    def decode(self, rows: Sequence[Row]) -> bool:
        return bool(rows[0][0])


@dataclass(frozen=True)
class WakeFoldLightly(Lightly, WakeFold):
    """A crash that undoes it undoes nothing that was built upon it: that commits later."""

    columns = "wake_fold"
