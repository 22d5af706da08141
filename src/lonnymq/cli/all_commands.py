"""Registers all commands."""

from __future__ import annotations

from typing import Annotated

import typer

import lonnymq
from lonnymq.cli import (
    audit_command,
    batch_commands,
    bench_command,
    channel_commands,
    credential_commands,
    dead_commands,
    demo_command,
    doctor_command,
    enqueue_command,
    follower_commands,
    lane_commands,
    message_commands,
    queue_commands,
    schedule_commands,
    schema_commands,
    spark_commands,
    sql_commands,
    stats_commands,
    top_command,
    web_command,
    worker_command,
    worker_commands,
)
from lonnymq.cli.options import Json, print_json

app = typer.Typer(
    name="lonnymq",
    help="LonnyMQ: a multi-tenant message queue inside PostgreSQL.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
schema_commands.register(app)
doctor_command.register(app)
enqueue_command.register(app)
worker_command.register(app)
stats_commands.register(app)
lane_commands.register(app)
audit_command.register(app)
top_command.register(app)
web_command.register(app)
bench_command.register(app)
demo_command.register(app)
app.add_typer(queue_commands.app, name="queue")
app.add_typer(channel_commands.app, name="channels")
app.add_typer(message_commands.app, name="messages")
app.add_typer(dead_commands.app, name="dead")
app.add_typer(batch_commands.app, name="batches")
app.add_typer(schedule_commands.app, name="schedules")
app.add_typer(worker_commands.app, name="workers")
app.add_typer(credential_commands.app, name="credentials")
app.add_typer(follower_commands.app, name="followers")
app.add_typer(sql_commands.app, name="sql")
app.add_typer(spark_commands.app, name="spark")


def _print_version(is_given: bool) -> None:  # noqa: FBT001 -- as Typer calls it
    if is_given:
        version()
        raise typer.Exit


@app.callback()
def common(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when a command fails.")] = False,
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Lists --debug in the help; `main` removes it before Typer sees the arguments."""


@app.command()
def version(*, as_json: Json = False) -> None:
    """Print the version.

    Example: lonnymq version --json
    """
    if as_json:
        from lonnymq.install import CONTRACT

        print_json({"version": lonnymq.__version__, "contract": CONTRACT})
    else:
        typer.echo(f"lonnymq {lonnymq.__version__}")
