"""sql install, sql upgrade, sql uninstall: what those commands would run, as plain SQL for psql."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from lonnymq.cli.options import Schema
from lonnymq.cli.schema_commands import Roles

SCHEMA = "lonnymq"

app = typer.Typer(no_args_is_help=True, help="Print what a command would run, as plain SQL for psql.")


@app.command()
def install(*, schema: Schema = SCHEMA, roles: Roles = False) -> None:
    """Print the SQL that installs the queue, or brings it up to date.

    Example: lonnymq sql install --schema shop_queue | psql
    """
    from lonnymq.install import plan

    _print(plan(schema, roles=roles))


@app.command()
def upgrade(*, schema: Schema = SCHEMA) -> None:
    """Print the SQL that brings an installed queue up to date.

    Example: lonnymq sql upgrade | psql
    """
    from lonnymq.install import plan

    _print(plan(schema, must_exist=True))


@app.command()
def uninstall(*, schema: Schema = SCHEMA) -> None:
    """Print the SQL that removes the queue and all its messages.

    Example: lonnymq sql uninstall | psql
    """
    from lonnymq.install import uninstall_plan

    _print(uninstall_plan(schema))


def _print(statements: Sequence[str]) -> None:
    from lonnymq.install import script

    typer.echo(script(statements).encode(), nl=False)
