"""Place new messages, and decide what is served next. True: there is more to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.statement import Command, Int, Row


@dataclass(frozen=True)
class Dispatch(Command[bool]):
    """Call it in a transaction of its own. It does not wait for the disk when it commits: a crash that undoes
    it undoes nothing that was built upon it, as that commits later.
    """

    function = "dispatch"
    is_harmless = True

    limit: Int = 1000
    quiet_ms: Int = 0

    def decode(self, rows: Sequence[Row]) -> bool:
        return bool(rows[0][0])
