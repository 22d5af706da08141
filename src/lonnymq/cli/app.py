"""All commands together."""

from __future__ import annotations

from typing import Annotated

import typer

import lonnymq
from lonnymq.cli import (
    bench,
    channels,
    dead,
    demo,
    doctor,
    enqueue,
    lanes,
    messages,
    queue,
    schema,
    spark,
    sql,
    stats,
    top,
    worker,
)
from lonnymq.cli.options import Json, print_json

app = typer.Typer(
    name="lonnymq",
    help="LonnyMQ: a multi-tenant message queue inside PostgreSQL.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
schema.register(app)
doctor.register(app)
enqueue.register(app)
worker.register(app)
stats.register(app)
lanes.register(app)
top.register(app)
bench.register(app)
demo.register(app)
app.add_typer(queue.app, name="queue")
app.add_typer(channels.app, name="channels")
app.add_typer(messages.app, name="messages")
app.add_typer(dead.app, name="dead")
app.add_typer(sql.app, name="sql")
app.add_typer(spark.app, name="spark")


def _tell_version(is_asked: bool) -> None:  # noqa: FBT001 -- as Typer calls it
    if is_asked:
        version()
        raise typer.Exit


@app.callback()
def common(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version of this package.", callback=_tell_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Show --debug in the help; it is taken before the commands see it."""


@app.command()
def version(*, as_json: Json = False) -> None:
    """Print the version of this package.

    Example: lonnymq version --json
    """
    if as_json:
        from lonnymq.install import CONTRACT

        print_json({"version": lonnymq.__version__, "contract": CONTRACT})
    else:
        typer.echo(f"lonnymq {lonnymq.__version__}")
