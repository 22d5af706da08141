"""sql install, sql upgrade, sql uninstall: print the SQL that those commands would run."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from lonnymq.cli.options import DEFAULT_SCHEMA, Schema
from lonnymq.cli.schema_commands import Roles

app = typer.Typer(
    no_args_is_help=True,
    help="Print the SQL that install, upgrade or uninstall would run, to pipe into psql.",
)


@app.command()
def install(*, schema: Schema = DEFAULT_SCHEMA, roles: Roles = False) -> None:
    """Print the SQL that installs the queue, or upgrades an existing one.

    Example: lonnymq sql install --schema shop_queue | psql
    """
    from lonnymq.install import plan

    _print(plan(schema, roles=roles))


@app.command()
def upgrade(*, schema: Schema = DEFAULT_SCHEMA) -> None:
    """Print the SQL that upgrades an installed queue.

    Example: lonnymq sql upgrade | psql
    """
    from lonnymq.install import plan

    _print(plan(schema, must_exist=True))


@app.command()
def uninstall(*, schema: Schema = DEFAULT_SCHEMA) -> None:
    """Print the SQL that removes the queue and all its messages.

    Example: lonnymq sql uninstall | psql
    """
    from lonnymq.install import uninstall_plan

    _print(uninstall_plan(schema))


def _print(statements: Sequence[str]) -> None:
    from lonnymq.install import script

    typer.echo(script(statements).encode(), nl=False)
