"""Schedules: list, run now, pause, resume, delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Body
from pydantic import Field

from lonnymq.commands import Schedule
from lonnymq.formatting import SECOND
from lonnymq.monitor.server import server_time
from lonnymq.web.access import Right
from lonnymq.web.api.parameters import exact
from lonnymq.web.cron_words import in_words
from lonnymq.web.errors import NotFound
from lonnymq.web.view import CurrentView
from lonnymq.worker.next_times import next_times

router = APIRouter(prefix="/schedules", tags=["schedules"])

NEXT_RUNS = 3
LATE_MS = 60 * SECOND


@dataclass(frozen=True, slots=True)
class ListedSchedule:
    """A schedule. `words` say in English when it runs, and `next_at` are the next times; empty if it is
    paused or they are not known here. `is_late`: a time has passed for which no worker has created a message.
    `expression`, `time_zone`, `catch_up` and `channel` are None if no worker has told them.
    """

    name: str
    expression: str | None
    words: str | None
    time_zone: str | None
    catch_up: str | None
    channel: str | None
    next_at: list[int]
    is_late: bool
    fired_at: int | None
    opened_at: int
    paused_at: int | None
    refused: int
    refused_at: int | None


@exact
@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """`catch_up` is for `resume`: make up for the times that were missed, as the schedule says."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]
    wanted: Literal["run", "pause", "resume", "delete"]
    catch_up: Annotated[bool, Field(strict=True)] = False


@dataclass(frozen=True, slots=True)
class ScheduleChanged:
    """`id` is the message that `run` created."""

    name: str
    result: str
    id: int | None = None


@router.get("")
def list_schedules(view: CurrentView) -> list[ListedSchedule]:
    """The schedules of workers, and when each runs next."""
    view.check()
    found = view.queue.schedules()
    now = server_time(view.queue)
    return [_listed(schedule, now) for schedule in found]


@router.post("")
def change_schedule(view: CurrentView, change: Annotated[ScheduleChange, Body()]) -> ScheduleChanged:
    """Run a schedule now, pause it, resume it, or delete it."""
    details = {"catch_up": True} if change.catch_up else None
    with view.action(
        f"schedule.{change.wanted}", Right.SCHEDULES, target=change.name, details=details
    ) as action:
        changed = _change(view, change)
        action.outcome = changed.result if changed.id is None else f"{changed.result}: message {changed.id}"
    return changed


def _change(view: CurrentView, change: ScheduleChange) -> ScheduleChanged:
    if change.wanted == "run":
        return ScheduleChanged(change.name, "created", view.queue.run_schedule(change.name).id)
    if change.wanted == "pause":
        view.queue.pause_schedule(change.name)
        return ScheduleChanged(change.name, "paused")
    if change.wanted == "resume":
        view.queue.resume_schedule(change.name, catch_up=change.catch_up)
        return ScheduleChanged(change.name, "resumed")
    if not view.queue.delete_schedule(change.name):
        raise NotFound(f"there is no schedule {change.name!r}", "reload the page")
    return ScheduleChanged(change.name, "deleted")


def _listed(schedule: Schedule, now: int) -> ListedSchedule:
    coming = next_times(schedule, NEXT_RUNS)
    return ListedSchedule(
        schedule.name,
        schedule.expression,
        in_words(schedule.expression),
        schedule.time_zone,
        schedule.catch_up,
        schedule.channel,
        coming,
        bool(coming) and coming[0] < now - LATE_MS,
        schedule.fired_at,
        schedule.opened_at,
        schedule.paused_at,
        schedule.refused,
        schedule.refused_at,
    )
