"""Completes names of channels in the shell, if the database answers quickly."""

from __future__ import annotations

import shlex
from contextlib import suppress

import typer

TIMEOUT_S = 2
MAX_NAMES = 50


def channel_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Reads the queue that the command line or the environment names. On any error it completes nothing.

    Leaves out names that would have to be quoted, as the shell would not quote them.
    """
    with suppress(Exception):
        return [name for name in _starting_with(incomplete, ctx) if shlex.quote(name) == name]
    return []


def _starting_with(prefix: str, ctx: typer.Context) -> list[str]:
    from lonnymq.adapters.psycopg import run
    from lonnymq.cli.database import connect
    from lonnymq.commands import ChannelList

    timeout = f"-c statement_timeout={TIMEOUT_S}s"
    with connect(ctx.params.get("dsn"), connect_timeout=TIMEOUT_S, options=timeout) as conn:
        page = run(conn, ctx.params["schema"], ChannelList(limit=MAX_NAMES, prefix=prefix))
    return [channel.channel for channel in page]
