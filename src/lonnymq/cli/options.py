"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from lonnymq.cli.completion import channel_names

DEFAULT_SCHEMA = "lonnymq"
LAST_ID = 2**63 - 1

Dsn = Annotated[
    str | None,
    typer.Option(
        help="Address of the database, as a libpq URL or connection string. Without it: LONNYMQ_DSN, else"
        " DATABASE_URL, else libpq's PG* variables, which keep a password out of the process list.",
        show_default=False,
    ),
]
Schema = Annotated[str, typer.Option(envvar="LONNYMQ_SCHEMA", help="Schema that the queue is installed in.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
OfChannel = Annotated[
    str | None,
    typer.Option(help="Only messages of this channel.", show_default=False, autocompletion=channel_names),
]
OfLane = Annotated[str | None, typer.Option(help="Only messages of this lane.", show_default=False)]
Limit = Annotated[int, typer.Option(min=1, help="List at most this many.")]


def print_json(value: Mapping[str, object]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))
