"""install, upgrade, verify, uninstall: the schema of the queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, Yes, print_json

if TYPE_CHECKING:
    from psycopg import Connection

    from lonnymq.install import Installed

WAIT_S = 30.0

Roles = Annotated[
    bool,
    typer.Option(
        "--roles",
        help="Also create the roles <schema>_producer, _consumer, _observer and _admin. Later upgrades"
        " keep their privileges up to date.",
    ),
]


Wait = Annotated[
    float,
    typer.Option(min=0, help="Seconds to keep trying while other sessions hold locks on the queue."),
]


def register(app: typer.Typer) -> None:
    for command in (install, upgrade, uninstall, verify):
        app.command()(command)


def install(
    *,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    roles: Roles = False,
    wait: Wait = WAIT_S,
    as_json: Json = False,
) -> None:
    """Install the queue into a schema, or upgrade the one that is there.

    Example: lonnymq install --roles
    """
    from lonnymq import install as installer

    with _connected(dsn, schema) as conn:
        _report("installed", installer.install(conn, schema, roles=roles, wait=wait), as_json=as_json)


def upgrade(
    *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, wait: Wait = WAIT_S, as_json: Json = False
) -> None:
    """Upgrade an installed queue to the version of this package.

    Example: lonnymq upgrade --schema shop_queue
    """
    from lonnymq import install as installer

    with _connected(dsn, schema) as conn:
        _report("upgraded", installer.upgrade(conn, schema, wait=wait), as_json=as_json)


def verify(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Check that this package works with the schema, and that no role has privileges that bypass the queue.

    Example: lonnymq verify --json
    """
    from lonnymq import install as installer

    with _connected(dsn, schema) as conn:
        _report("works", installer.verify(conn, schema), as_json=as_json)


def uninstall(
    *,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    yes: Yes = False,
    wait: Wait = WAIT_S,
    as_json: Json = False,
) -> None:
    """Remove the queue and all its messages.

    Example: lonnymq uninstall --schema shop_queue
    """
    from lonnymq import install as installer
    from lonnymq.cli.confirm import confirm

    with _connected(dsn, schema) as conn:
        found = installer.inspect(conn, schema)
        confirm(f"Remove LonnyMQ {found.release} and all its messages from schema {schema!r}?", yes=yes)
        installer.uninstall(conn, schema, wait=wait)
    _report("removed", found, as_json=as_json)


@contextmanager
def _connected(dsn: str | None, schema: str) -> Iterator[Connection[Any]]:
    """Check the schema's name before connecting."""
    from lonnymq.cli.database import connect
    from lonnymq.schema_name import check_schema_name

    check_schema_name(schema)
    with connect(dsn) as conn:
        yield conn


def _report(result: str, found: Installed, *, as_json: bool) -> None:
    if as_json:
        print_json({"result": result, **asdict(found)})
    else:
        typer.echo(f"{result}: LonnyMQ {found.release} in schema {found.schema!r}, step {found.step}")
