"""schedules: list the schedules that workers run, and delete one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.display import when
from lonnymq.cli.failure import NotThere
from lonnymq.cli.open_queue import opened, server_time
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.cli.printing import Column, print_list
from lonnymq.formatting import printable

if TYPE_CHECKING:
    from lonnymq.commands import Schedule

app = typer.Typer(help="Schedules of workers: list, delete.", no_args_is_help=True)


@app.command("list")
def list_schedules(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """List the schedules, and when each last created a message.

    Example: lonnymq schedules list
    """
    with opened(dsn, schema) as queue:
        found = queue.schedules()
        now = server_time(queue)
    print_list(found, _columns(now), otherwise="There are no schedules.", as_json=as_json)


@app.command()
def delete(
    name: Annotated[str, typer.Argument(help="The schedule's name.", show_default=False)],
    *,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Delete a schedule that no worker defines any more. A worker that still defines it starts it anew.

    Example: lonnymq schedules delete weekly_report
    """
    with opened(dsn, schema) as queue:
        was_there = queue.delete_schedule(name)
    if not was_there:
        raise NotThere(f"there is no schedule {name!r}", "`lonnymq schedules list` lists the schedules")
    if as_json:
        print_json({"name": name, "result": "deleted"})
    else:
        typer.echo(f"deleted: {printable(name)}")


def _columns(now: int) -> list[Column[Schedule]]:
    return [
        Column("schedule", lambda schedule: schedule.name, gives_way=True),
        Column("last message", lambda schedule: when(schedule.fired_at, now)),
        Column("decided up to", lambda schedule: when(schedule.ticked_at, now)),
        Column("first seen", lambda schedule: when(schedule.opened_at, now)),
    ]
