"""audit: what people did to the queue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.completion import channel_names
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, LAST_ID, Dsn, Json, Limit, Schema
from lonnymq.cli.printing import Column, print_page
from lonnymq.formatting import when
from lonnymq.monitor.server import server_time

if TYPE_CHECKING:
    from lonnymq.commands import AuditEntry


def register(app: typer.Typer) -> None:
    app.command()(audit)


def audit(
    *,
    channel: Annotated[
        str | None,
        typer.Option(
            help="Only what was done to this channel.", show_default=False, autocompletion=channel_names
        ),
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(min=1, max=LAST_ID, help="Next page: start after this id.", show_default=False),
    ] = None,
    limit: Limit = 50,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """List what people did to the queue and who did it, latest first. `unknown` means that an action was
    started and is not known to have ended.

    Example: lonnymq audit --channel acme
    """
    with opened(dsn, schema) as queue:
        found = queue.audit(channel=channel, after=after, limit=limit)
        now = server_time(queue)
    print_page(
        found,
        _columns(now),
        limit=limit,
        cursor=lambda entry: str(entry.id),
        otherwise="Nothing is recorded.",
        as_json=as_json,
    )


def _columns(now: int) -> list[Column[AuditEntry]]:
    return [
        Column("id", lambda entry: str(entry.id), is_number=True),
        Column("when", lambda entry: when(entry.at, now)),
        Column("who", lambda entry: entry.who, gives_way=True),
        Column("action", lambda entry: entry.action),
        Column("channel", lambda entry: entry.channel or "", gives_way=True),
        Column("target", lambda entry: entry.target or "", gives_way=True),
        Column("outcome", lambda entry: entry.outcome or "unknown", gives_way=True),
        Column("details", _details, gives_way=True),
    ]


def _details(entry: AuditEntry) -> str:
    return json.dumps(entry.details, ensure_ascii=False) if entry.details else ""
