"""Schedules: read their positions, and fire them."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.answers import ManyRecords, OneRecord, Result, ResultText, YesOrNo
from lonnymq.statement import BigInt, BigInts, Bytea, Jsonb, Text, Texts


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """All times up to `ticked_at` are decided. `now_at` is the server's clock."""

    name: str
    ticked_at: int
    now_at: int


@dataclass(frozen=True)
class ScheduleOpen(ManyRecords[ScheduleState]):
    """Read the positions of schedules. New ones start now."""

    function = "schedule_open"
    is_harmless = True
    record = ScheduleState

    names: Texts


@dataclass(frozen=True, slots=True)
class Fired:
    """The result is `fired`, `skipped`, `lost`, `early` or `not_found`. The schedule is now decided up to
    `ticked_at`.
    """

    result: ResultText
    ticked_at: int | None
    created: int
    refused: int
    now_at: int


@dataclass(frozen=True)
class ScheduleFire(OneRecord[Fired]):
    """Decide a schedule's times between `after` and `upto`: create one message for each of `ticks`.

    Any number of callers may try; one of them succeeds. `options` are options of message_create by their
    names: headers, max_attempts, priority, cost, lane.
    """

    function = "schedule_fire"
    record = Fired
    is_repeatable = True

    name: Text
    after: BigInt
    upto: BigInt
    ticks: BigInts
    channel: Text
    content: Bytea
    options: Jsonb | None = None

    def tells_all(self, result: Fired) -> bool:
        """After `lost`, the first call may have fired the schedule, or another caller."""
        return result.result is not Result.LOST


@dataclass(frozen=True, slots=True)
class Schedule:
    """All times up to `ticked_at` are decided. `fired_at` is the last one that created a message."""

    name: str
    ticked_at: int
    fired_at: int | None
    opened_at: int


@dataclass(frozen=True)
class ScheduleList(ManyRecords[Schedule]):
    """List the schedules."""

    function = "schedule_list"
    is_harmless = True
    record = Schedule


@dataclass(frozen=True)
class ScheduleDelete(YesOrNo):
    """Forget a schedule. Returns whether there was one."""

    function = "schedule_delete"
    is_repeatable = True

    name: Text
