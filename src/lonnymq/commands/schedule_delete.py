"""Forget a schedule. Returns whether there was one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.statement import Command, Row, Text


@dataclass(frozen=True)
class ScheduleDelete(Command[bool]):
    function = "schedule_delete"
    is_repeatable = True

    name: Text

    def decode(self, rows: Sequence[Row]) -> bool:
        return bool(rows[0][0])
