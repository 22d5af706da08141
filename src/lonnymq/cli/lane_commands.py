"""lanes: the classes of work that messages wait in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lonnymq.cli.formatting import count
from lonnymq.cli.open_queue import dispatch, opened
from lonnymq.cli.options import Dsn, Json, Schema
from lonnymq.cli.printing import Column, print_records, print_table

if TYPE_CHECKING:
    from lonnymq.commands import Lane

SCHEMA = "lonnymq"


def register(app: typer.Typer) -> None:
    app.command()(lanes)


def lanes(*, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """List the lanes, how many due messages wait in each, and how many of these are next to be served.

    Example: lonnymq lanes --json
    """
    with opened(dsn, schema) as queue:
        dispatch(queue)
        found = queue.lanes()
    if as_json:
        print_records(found)
    else:
        print_table(found, _columns(), otherwise="There are no lanes.")


def _columns() -> list[Column[Lane]]:
    return [
        Column("lane", lambda lane: lane.lane, gives_way=True),
        Column("waiting", lambda lane: count(lane.waiting), is_number=True),
        Column("ready", lambda lane: count(lane.ready), is_number=True),
    ]
