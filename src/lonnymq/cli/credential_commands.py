"""credentials: bind login roles to channels, so that a tenant can use its own channels only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.completion import channel_names
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.cli.printing import Column, print_list
from lonnymq.formatting import printable

if TYPE_CHECKING:
    from lonnymq.commands import Credential

app = typer.Typer(help="Logins that are bound to channels: list, bind, unbind.", no_args_is_help=True)

Role = Annotated[str, typer.Argument(help="The login role's name.", show_default=False)]


@app.command("list")
def list_credentials(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """List the login roles that are bound to channels.

    Example: lonnymq credentials list
    """
    with opened(dsn, schema) as queue:
        found = queue.credentials()
    print_list(found, _columns(), otherwise="No login is bound to channels.", as_json=as_json)


@app.command()
def bind(
    role: Role,
    channels: Annotated[
        list[str],
        typer.Argument(
            help="The channels that it can use.", show_default=False, autocompletion=channel_names
        ),
    ],
    *,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Bind a login role to channels: it can use these, and no others. Replaces what it was bound to.

    Example: lonnymq credentials bind acme_login acme
    """
    with opened(dsn, schema) as queue:
        queue.bind(role, channels)
    if as_json:
        print_json({"role": role, "channels": channels})
    else:
        typer.echo(f"bound: {printable(role)} to {', '.join(printable(name) for name in channels)}")


@app.command()
def unbind(role: Role, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Remove the binding of a login role: it can use all channels again, as far as its roles allow.

    Example: lonnymq credentials unbind acme_login
    """
    from lonnymq.cli.failure import NotThere

    with opened(dsn, schema) as queue:
        if role not in {bound.role for bound in queue.credentials()}:
            raise NotThere(
                f"{printable(role)} is not bound to channels",
                "`lonnymq credentials list` lists the logins that are",
            )
        queue.bind(role, None)
    if as_json:
        print_json({"role": role, "channels": None})
    else:
        typer.echo(f"unbound: {printable(role)}")


def _columns() -> list[Column[Credential]]:
    return [
        Column("role", lambda credential: credential.role),
        Column("channels", lambda credential: ", ".join(credential.channels), gives_way=True),
    ]
