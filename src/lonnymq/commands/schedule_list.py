"""The schedules that there are."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyRecords


@dataclass(frozen=True, slots=True)
class Schedule:
    """`ticked_at`: the last tick that is decided; `fired_at`: the last that was fired."""

    name: str
    ticked_at: int
    fired_at: int | None
    opened_at: int


@dataclass(frozen=True)
class ScheduleList(ManyRecords[Schedule]):
    function = "schedule_list"
    is_harmless = True
    record = Schedule
