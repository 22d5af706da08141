"""workers: list the worker processes; pause, resume or drain some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.failure import BadValue, NotThere
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema
from lonnymq.cli.printing import Column, note, print_list, print_records
from lonnymq.formatting import printable, when
from lonnymq.monitor.server import server_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from lonnymq.client.queue import Queue
    from lonnymq.commands import ListedWorker, RequestedWorker

app = typer.Typer(help="Worker processes: list, pause, resume, drain.", invoke_without_command=True)

NO_TASK = "(without a task)"
NONE = (
    "No worker is running. A worker is listed from its start until it stops; those of Celery and taskiq are"
    " not listed."
)

Name = Annotated[
    str,
    typer.Argument(
        help="The worker's name or host, as `lonnymq workers` shows it; * stands for any characters.",
        show_default=False,
    ),
]


@app.callback()
def workers(
    context: typer.Context, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False
) -> None:
    """Worker processes: list, pause, resume, drain. Without a command: list."""
    if context.invoked_subcommand is None:
        list_workers(dsn=dsn, schema=schema, as_json=as_json)
    elif early := [name for name in context.params if _is_given(context, name)]:
        raise BadValue(
            f"the option for {early[0]} is given before the command",
            f"write it at the end: lonnymq workers {context.invoked_subcommand} ...",
        )


@app.command("list")
def list_workers(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """List the worker processes: what each serves, how much it runs, since when, and when it last reported.

    A worker reports every few seconds. One that has not reported for 30 seconds is `lost`: it was killed, or
    cannot reach the database. After an hour it is not listed any more.

    Example: lonnymq workers list --json
    """
    with opened(dsn, schema) as queue:
        found = queue.workers()
        now = server_time(queue)
    print_list(found, _columns(now), otherwise=NONE, as_json=as_json)


@app.command()
def pause(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Pause workers: they finish what runs and take no more messages, until they are resumed.

    Each learns of it with its next report, within about five seconds.

    Example: lonnymq workers pause 'mail-*'
    """
    _request(name, lambda queue: queue.pause_worker(name), "pause", dsn, schema, as_json=as_json)


@app.command()
def resume(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Let paused workers take messages again.

    Example: lonnymq workers resume 'mail-*'
    """
    _request(name, lambda queue: queue.resume_worker(name), "resume", dsn, schema, as_json=as_json)


@app.command()
def drain(name: Name, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Let workers finish what runs and then exit, as SIGTERM does.

    What starts your workers may start them again: systemd with Restart=always, or Kubernetes. To keep a
    worker idle, pause it.

    Example: lonnymq workers drain web-1:4711
    """
    _request(name, lambda queue: queue.drain_worker(name), "drain", dsn, schema, as_json=as_json)


def _is_given(context: typer.Context, parameter: str) -> bool:
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _request(
    name: str,
    request: Callable[[Queue], list[RequestedWorker]],
    verb: str,
    dsn: str | None,
    schema: str,
    *,
    as_json: bool,
) -> None:
    with opened(dsn, schema) as queue:
        asked = request(queue)
    if not asked:
        raise NotThere(f"there is no worker {name!r}", "`lonnymq workers` lists the workers")
    if as_json:
        print_records(asked)
        return
    for worker in asked:
        typer.echo(f"asked to {verb}: {printable(worker.name)}")
    if any(not worker.is_alive for worker in asked):
        note("Some of these have not reported for 30 seconds. They learn of it if they report again.")


def _columns(now: int) -> list[Column[ListedWorker]]:
    return [
        Column("worker", lambda worker: worker.name, gives_way=True),
        Column("state", _state),
        Column("running", lambda worker: f"{worker.running}/{worker.concurrency}", is_number=True),
        Column("started", lambda worker: when(worker.started_at, now)),
        Column("seen", lambda worker: when(worker.seen_at, now)),
        Column("version", lambda worker: worker.version),
        Column("lanes", lambda worker: "all" if worker.lanes is None else ", ".join(worker.lanes)),
        Column("tasks", lambda worker: task_names(worker.tasks), gives_way=True),
        Column("unknown tasks", lambda worker: task_names(worker.unknown_tasks), gives_way=True),
    ]


def _state(worker: ListedWorker) -> str:
    if not worker.is_alive:
        return "lost"
    return worker.state if worker.requested in {worker.state, "serving"} else f"to be {worker.requested}"


def task_names(tasks: list[str]) -> str:
    return ", ".join(task or NO_TASK for task in tasks)
