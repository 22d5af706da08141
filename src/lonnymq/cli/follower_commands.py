"""followers: the readers of the history, for which its rows are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.failure import NotThere
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.cli.printing import Column, print_list
from lonnymq.formatting import printable, when
from lonnymq.monitor.server import server_time

if TYPE_CHECKING:
    from lonnymq.commands import Follower

app = typer.Typer(help="Readers that follow the history: list, forget.", no_args_is_help=True)


@app.command("list")
def list_followers(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """List the readers of the history, and when each last said how far it has read.

    Example: lonnymq followers list
    """
    with opened(dsn, schema) as queue:
        found = queue.followers()
        now = server_time(queue)
    print_list(found, _columns(now), otherwise="Nobody follows the history.", as_json=as_json)


@app.command()
def forget(
    name: Annotated[str, typer.Argument(help="The follower's name.", show_default=False)],
    *,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Forget a follower that will not come back, so that the history is no longer kept for it.

    Example: lonnymq followers forget lake
    """
    with opened(dsn, schema) as queue:
        was_there = queue.forget_follower(name)
    if not was_there:
        raise NotThere(f"there is no follower {name!r}", "`lonnymq followers list` lists the followers")
    if as_json:
        print_json({"name": name, "result": "forgotten"})
    else:
        typer.echo(f"forgotten: {printable(name)}")


def _columns(now: int) -> list[Column[Follower]]:
    return [
        Column("follower", lambda follower: follower.name, gives_way=True),
        Column("last seen", lambda follower: when(follower.at, now)),
    ]
