"""Where schedules stand; those that are new begin now."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyRecords
from lonnymq.statement import Texts


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """`ticked_at`: the last tick that is decided. `now_at`: the server's clock."""

    name: str
    ticked_at: int
    now_at: int


@dataclass(frozen=True)
class ScheduleOpen(ManyRecords[ScheduleState]):
    function = "schedule_open"
    is_harmless = True
    record = ScheduleState

    names: Texts
