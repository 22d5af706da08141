"""Options that several commands share, and how a command prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from lonnymq.cli.completion import channel_names

Dsn = Annotated[
    str | None,
    typer.Option(
        help="The database, as a libpq address. Else LONNYMQ_DSN, DATABASE_URL, or libpq's PG* variables;"
        " those keep a password out of the list of processes.",
        show_default=False,
    ),
]
Schema = Annotated[str, typer.Option(envvar="LONNYMQ_SCHEMA", help="The schema the queue lives in.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON: an object a line.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OfChannel = Annotated[
    str | None,
    typer.Option(help="Only of this channel.", show_default=False, autocompletion=channel_names),
]
Limit = Annotated[int, typer.Option(min=1, help="How many to list.")]


def print_json(value: Mapping[str, object]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))
