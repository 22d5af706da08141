"""The calls for schedules."""

from __future__ import annotations

from lonnymq.client.calls import Request, Steps, ask
from lonnymq.commands import (
    Created,
    Result,
    Schedule,
    ScheduleDelete,
    ScheduleDetails,
    ScheduleGet,
    ScheduleList,
    SchedulePause,
    ScheduleResume,
    ScheduleRun,
)
from lonnymq.errors import ChannelFull, ScheduleNotFound
from lonnymq.statement import Command


def schedules(*, conn: object | None = None) -> Request[list[Schedule]]:
    """All schedules, by name: when each last created a message, whether it is paused, and how many messages
    a full channel has refused.
    """
    return ask(ScheduleList(), conn)


def schedule(name: str, *, conn: object | None = None) -> Request[ScheduleDetails | None]:
    """One schedule, with the payload and the options of its messages; None if there is none of this name."""
    return ask(ScheduleGet(name), conn)


def run_schedule(name: str, *, conn: object | None = None) -> Request[Created]:
    """Enqueue the message of a schedule now, as the worker that defined it last would. The schedule itself
    does not change, and may be paused. The message has the headers `schedule-run`, which is true, and
    `scheduled-at`, the time of the call.

    Raises ScheduleNotFound if there is no such schedule, or no worker has defined it since this version was
    installed, and ChannelFull if its channel is full.
    """
    return Request(_run(name), conn)


def _run(name: str) -> Steps[Created]:
    created: Created = yield ScheduleRun(name)
    if created.result == Result.UNDEFINED:
        raise ScheduleNotFound(
            f"no worker has said what schedule {name!r} enqueues", "start a worker that defines it"
        )
    if created.result == Result.NOT_FOUND:
        raise _not_found(name)
    if created.result == Result.FULL:
        raise ChannelFull(
            f"the channel of schedule {name!r} is full", "try again when there is room, or raise its max_size"
        )
    return created


def pause_schedule(name: str, *, conn: object | None = None) -> Request[None]:
    """Pause a schedule: it enqueues nothing until `resume_schedule`. Raises ScheduleNotFound if there is
    none of this name.
    """
    return Request(_changed(name, SchedulePause(name)), conn)


def resume_schedule(name: str, *, catch_up: bool = False, conn: object | None = None) -> Request[None]:
    """Let a paused schedule go on. The times that it missed while it was paused are skipped; with `catch_up`
    the schedule's own `catch_up` decides, as after a downtime. Raises ScheduleNotFound if there is none of
    this name.
    """
    return Request(_changed(name, ScheduleResume(name, catch_up)), conn)


def _changed(name: str, command: Command[Result]) -> Steps[None]:
    result: Result = yield command
    if result == Result.NOT_FOUND:
        raise _not_found(name)


def _not_found(name: str) -> ScheduleNotFound:
    return ScheduleNotFound(
        f"there is no schedule {name!r}", "a schedule is known once a worker that defines it has started"
    )


def delete_schedule(name: str, *, conn: object | None = None) -> Request[bool]:
    """Forget a schedule. Returns whether there was one. A worker that still defines it starts it anew."""
    return ask(ScheduleDelete(name), conn)
