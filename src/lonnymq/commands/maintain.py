"""Clean up. Returns how many rows went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.statement import Command, Int, Row


@dataclass(frozen=True)
class Maintain(Command[int]):
    function = "maintain"
    is_harmless = True

    limit: Int = 10000

    def decode(self, rows: Sequence[Row]) -> int:
        return int(rows[0][0])
