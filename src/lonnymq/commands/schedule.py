"""Schedules: read their positions, fire them, and look after them."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.answers import ManyRecords, OneOrNone, OneRecord, OneResult, Result, ResultText, YesOrNo
from lonnymq.commands.message import Created
from lonnymq.payload import Payloaded
from lonnymq.statement import (
    BigInt,
    BigInts,
    Boolean,
    Bytea,
    Byteas,
    Jsonb,
    Jsonbs,
    Text,
    Texts,
    command,
)


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """All times up to `ticked_at` are decided. `now_at` is the server's clock."""

    name: str
    ticked_at: int
    now_at: int
    is_paused: bool


@command
class ScheduleOpen(ManyRecords[ScheduleState]):
    """Read the positions of schedules. New ones start now. Their definitions are stored, if given: lists with
    one element per name.
    """

    function = "schedule_open"
    is_harmless = True
    record = ScheduleState

    names: Texts
    expressions: Texts | None = None
    time_zones: Texts | None = None
    catch_ups: Texts | None = None
    channels: Texts | None = None
    contents: Byteas | None = None
    options: Jsonbs | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """The result is `fired`, `skipped`, `lost`, `early`, `paused` or `not_found`. The schedule is now decided
    up to `ticked_at`.
    """

    result: ResultText
    ticked_at: int | None
    created: int
    refused: int
    now_at: int


@command
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
    """All times up to `ticked_at` are decided. `fired_at` is the last one that created a message. A full
    channel has refused `refused` messages, the last one at `refused_at`. `expression`, `time_zone`,
    `catch_up` and `channel` are what a worker said last; None if no worker did.
    """

    name: str
    ticked_at: int
    fired_at: int | None
    opened_at: int
    paused_at: int | None
    refused: int
    refused_at: int | None
    expression: str | None
    time_zone: str | None
    catch_up: str | None
    channel: str | None

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self.paused_at is not None


@command
class ScheduleList(ManyRecords[Schedule]):
    """List the schedules."""

    function = "schedule_list"
    is_harmless = True
    record = Schedule


@dataclass(frozen=True, slots=True)
class ScheduleDetails(Payloaded, Schedule):
    """A schedule, with the payload, headers and other options of its messages."""

    content: Bytea | None
    headers: Jsonb
    options: Jsonb


@command
class ScheduleGet(OneOrNone[ScheduleDetails]):
    """Read one schedule; None if there is none of this name."""

    function = "schedule_get"
    is_harmless = True
    record = ScheduleDetails

    name: Text


@command
class ScheduleRun(OneRecord[Created]):
    """Create a schedule's message now."""

    function = "schedule_run"
    record = Created

    name: Text


@command
class SchedulePause(OneResult):
    """Let a schedule fire nothing."""

    function = "schedule_pause"
    is_repeatable = True

    name: Text


@command
class ScheduleResume(OneResult):
    """Let a paused schedule fire again."""

    function = "schedule_resume"
    is_repeatable = True

    name: Text
    catch_up: Boolean = False


@command
class ScheduleDelete(YesOrNo):
    """Forget a schedule. Returns whether there was one."""

    function = "schedule_delete"
    is_repeatable = True

    name: Text
