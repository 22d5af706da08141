"""What tells the past of this database, as far as a snapshot sees it, from the past of any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.statement import Boolean, Command, Row, Text


@dataclass(frozen=True)
class HistoryMark(Command[int | None]):
    """None: the rows that would tell are no longer kept."""

    function = "history_mark"
    is_harmless = True

    snapshot: Text
    dead: Boolean = False

    def decode(self, rows: Sequence[Row]) -> int | None:
        return None if rows[0][0] is None else int(rows[0][0])
