"""schedules: list and show the schedules of workers, run them by hand, pause and delete them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.failure import NotThere
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.cli.printing import Column, json_fields, print_fields, print_table, shown_payload
from lonnymq.formatting import SECOND, count, exactly, printable, when
from lonnymq.monitor.server import server_time

if TYPE_CHECKING:
    from lonnymq.commands import Schedule, ScheduleDetails

app = typer.Typer(help="Schedules of workers: list, show, run, pause, resume, delete.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The schedule's name.", show_default=False)]
LISTED = "`lonnymq schedules list` lists the schedules"


@app.command("list")
def list_schedules(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """List the schedules: when each runs next, in its time zone, and when it last created a message.

    `refused` counts the messages that were not created because the channel was full.

    Example: lonnymq schedules list
    """
    with opened(dsn, schema) as queue:
        found = queue.schedules()
        now = server_time(queue)
    if as_json:
        for schedule in found:
            print_json(json_fields(schedule) | {"next_at": _next_at(schedule)})
    else:
        print_table(found, _columns(now), otherwise="There are no schedules.")


@app.command()
def show(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Show one schedule, and the message that it creates.

    Example: lonnymq schedules show weekly_report
    """
    with opened(dsn, schema) as queue:
        schedule = queue.schedule(name)
        now = server_time(queue)
    if schedule is None:
        raise NotThere(f"there is no schedule {name!r}", LISTED)
    if as_json:
        print_json(json_fields(schedule) | {"next_at": _next_at(schedule)})
    else:
        print_fields(_fields(schedule, now))


@app.command()
def run(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Enqueue the message of a schedule now. The schedule itself goes on as before, or stays paused.

    The message has the header schedule-run, so that its task can tell.

    Example: lonnymq schedules run weekly_report
    """
    with opened(dsn, schema) as queue:
        created = queue.run_schedule(name)
    if as_json:
        print_json({"name": name, "result": "created", "id": created.id})
    else:
        typer.echo(f"created: message {created.id}")


@app.command()
def pause(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Pause a schedule: it creates no messages until you resume it.

    Example: lonnymq schedules pause weekly_report
    """
    with opened(dsn, schema) as queue:
        queue.pause_schedule(name)
    _print_result(name, "paused", as_json=as_json)


@app.command()
def resume(
    name: Name,
    *,
    catch_up: Annotated[
        bool,
        typer.Option(
            "--catch-up",
            help="Make up for the times that it missed while it was paused, as its catch_up says.",
        ),
    ] = False,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Let a paused schedule go on. The times that it missed are skipped, unless you say otherwise.

    Example: lonnymq schedules resume weekly_report
    """
    with opened(dsn, schema) as queue:
        queue.resume_schedule(name, catch_up=catch_up)
    _print_result(name, "resumed", as_json=as_json)


@app.command()
def delete(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Delete a schedule that no worker defines any more. A worker that still defines it starts it anew.

    Example: lonnymq schedules delete weekly_report
    """
    with opened(dsn, schema) as queue:
        was_there = queue.delete_schedule(name)
    if not was_there:
        raise NotThere(f"there is no schedule {name!r}", LISTED)
    _print_result(name, "deleted", as_json=as_json)


def _print_result(name: str, result: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "result": result})
    else:
        typer.echo(f"{result}: {printable(name)}")


def _columns(now: int) -> list[Column[Schedule]]:
    return [
        Column("schedule", lambda schedule: schedule.name, gives_way=True),
        Column("times", lambda schedule: schedule.expression or ""),
        Column("channel", lambda schedule: schedule.channel or "", gives_way=True),
        Column("next run", lambda schedule: _next_run(schedule, now)),
        Column("last message", lambda schedule: when(schedule.fired_at, now)),
        Column("refused", lambda schedule: _refused(schedule, now)),
    ]


def _fields(schedule: ScheduleDetails, now: int) -> list[tuple[str, str]]:
    headers = json.dumps(schedule.headers, ensure_ascii=False) if schedule.headers else ""
    options = ", ".join(f"{name} {value}" for name, value in sorted((schedule.options or {}).items()))
    return [
        ("schedule", printable(schedule.name)),
        ("times", printable(schedule.expression or "")),
        ("time zone", printable(schedule.time_zone or "")),
        ("missed times", _catch_up(schedule)),
        ("next run", _next_run(schedule, now)),
        ("paused", exactly(schedule.paused_at, now)),
        ("last message", exactly(schedule.fired_at, now)),
        ("handled up to", exactly(schedule.ticked_at, now)),
        ("first seen", exactly(schedule.opened_at, now)),
        ("refused", _refused(schedule, now)),
        ("channel", printable(schedule.channel or "")),
        ("options", printable(options)),
        ("headers", printable(headers)),
        ("payload", shown_payload(schedule)),
    ]


def _catch_up(schedule: ScheduleDetails) -> str:
    texts = {"one": "one message for the last of them", "all": "one message each", "none": "skipped"}
    return texts.get(schedule.catch_up or "", printable(schedule.catch_up or ""))


def _refused(schedule: Schedule, now: int) -> str:
    if not schedule.refused:
        return ""
    return f"{count(schedule.refused)}, last {when(schedule.refused_at, now)}: the channel was full"


def _next_run(schedule: Schedule, now: int) -> str:
    """In the schedule's time zone: 2026-11-18 07:00 Europe/Berlin."""
    if schedule.is_paused:
        return "paused"
    at = _next_at(schedule)
    if at is None:
        return "" if schedule.expression is None else "unknown"
    from lonnymq.worker.cron_times import zone_named

    local = datetime.fromtimestamp(at / 1000, zone_named(schedule.time_zone))
    late = f", {when(at, now)}: no worker runs it" if at < now - 60 * SECOND else ""
    return f"{local:%Y-%m-%d %H:%M{':%S' if local.second else ''}} {schedule.time_zone}{late}"


def _next_at(schedule: Schedule) -> int | None:
    """The next time that is not decided yet. None if the schedule is paused, or its times are not known
    here.
    """
    from lonnymq.worker.next_times import next_times

    return next(iter(next_times(schedule)), None)
