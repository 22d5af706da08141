"""Take away what was staged under some batches and will not be published. Returns how many rows went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.statement import Command, Row, Uuids


@dataclass(frozen=True)
class StagingDiscard(Command[int]):
    function = "staging_discard"
    is_repeatable = True

    batches: Uuids

    def decode(self, rows: Sequence[Row]) -> int:
        return int(rows[0][0])
