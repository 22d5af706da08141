"""lanes: how many messages wait in each lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema
from lonnymq.cli.printing import Column, print_list
from lonnymq.formatting import count
from lonnymq.monitor.server import dispatch

if TYPE_CHECKING:
    from lonnymq.commands import Lane


def register(app: typer.Typer) -> None:
    app.command()(lanes)


def lanes(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """List the lanes: how many due messages wait in each (`waiting`), and how many of these are next
    (`ready`).

    Example: lonnymq lanes --json
    """
    with opened(dsn, schema) as queue:
        dispatch(queue)
        found = queue.lanes()
    print_list(found, _columns(), otherwise="There are no lanes.", as_json=as_json)


def _columns() -> list[Column[Lane]]:
    return [
        Column("lane", lambda lane: lane.lane, gives_way=True),
        Column("waiting", lambda lane: count(lane.waiting), is_number=True),
        Column("ready", lambda lane: count(lane.ready), is_number=True),
    ]
