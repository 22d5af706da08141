"""What the shell offers for a channel's name: those that there are, if the database says so soon."""

from __future__ import annotations

import shlex
from contextlib import suppress

import typer

SECONDS = 2
SHOWN = 50


def channel_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the queue that the line, or else the environment, names. Whatever is wrong, there are just none.

    Names that would have to be quoted are left out, as the shell would not quote them.
    """
    with suppress(Exception):
        return [name for name in _begin_with(incomplete, ctx) if shlex.quote(name) == name]
    return []


def _begin_with(prefix: str, ctx: typer.Context) -> list[str]:
    from lonnymq.adapters.psycopg import run
    from lonnymq.cli.database import connect
    from lonnymq.cli.name_prefix import just_before
    from lonnymq.commands import ChannelList

    patience = f"-c statement_timeout={SECONDS}s"
    with connect(ctx.params.get("dsn"), connect_timeout=SECONDS, options=patience) as conn:
        page = run(
            conn, ctx.params["schema"], ChannelList("name", just_before(prefix) if prefix else None, SHOWN)
        )
    return [channel.channel for channel in page if channel.channel.startswith(prefix)]
