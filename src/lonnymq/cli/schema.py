"""install, upgrade, uninstall, verify: a schema and what is in it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.options import Dsn, Json, Schema, Yes, print_json

if TYPE_CHECKING:
    from lonnymq.install import Installed

SCHEMA = "lonnymq"

Roles = Annotated[
    bool,
    typer.Option(
        "--roles",
        help="Make the roles <schema>_producer, _consumer, _observer and _admin. Later upgrades keep their"
        " rights up to date.",
    ),
]


def register(app: typer.Typer) -> None:
    for command in (install, upgrade, uninstall, verify):
        app.command()(command)


def install(*, dsn: Dsn = None, schema: Schema = SCHEMA, roles: Roles = False, as_json: Json = False) -> None:
    """Install the queue into a schema, or bring what is there up to date."""
    from lonnymq import install as installer
    from lonnymq.cli.database import connect

    with connect(dsn) as conn:
        _report("installed", installer.install(conn, schema, roles=roles), as_json=as_json)


def upgrade(*, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Bring an installed queue up to this package's release."""
    from lonnymq import install as installer
    from lonnymq.cli.database import connect

    with connect(dsn) as conn:
        _report("upgraded", installer.upgrade(conn, schema), as_json=as_json)


def verify(*, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Check that this package works with the schema as it is."""
    from lonnymq import install as installer
    from lonnymq.cli.database import connect

    with connect(dsn) as conn:
        _report("works", installer.verify(conn, schema), as_json=as_json)


def uninstall(*, dsn: Dsn = None, schema: Schema = SCHEMA, yes: Yes = False, as_json: Json = False) -> None:
    """Remove the queue, with all its messages, from a schema."""
    from lonnymq import install as installer
    from lonnymq.cli.asking import confirm
    from lonnymq.cli.database import connect

    with connect(dsn) as conn:
        found = installer.inspect(conn, schema)
        confirm(f"Remove LonnyMQ {found.release} and all its messages from schema {schema!r}?", yes=yes)
        installer.uninstall(conn, schema)
    _report("removed", found, as_json=as_json)


def _report(result: str, found: Installed, *, as_json: bool) -> None:
    if as_json:
        print_json({"result": result, **asdict(found)})
    else:
        typer.echo(f"{result}: LonnyMQ {found.release} in schema {found.schema!r}, step {found.step}")
