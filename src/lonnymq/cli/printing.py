"""What a command prints: data on stdout, as a table or as JSON, and notes on stderr."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import typer

from lonnymq.cli.formatting import printable
from lonnymq.cli.options import print_json
from lonnymq.errors import LonnyMQError

if TYPE_CHECKING:
    from rich.table import Table

    from lonnymq.payload import Payloaded

Record = TypeVar("Record")

UNLIMITED = 100_000
"""Columns of a file or a pipe: nothing is cut off there."""
SHOWN_CONTENT = 2_000


@dataclass(frozen=True)
class Column(Generic[Record]):
    """`gives_way`: cut off where the terminal is too narrow."""

    title: str
    cell: Callable[[Record], str]
    is_number: bool = False
    gives_way: bool = False


def note(text: str) -> None:
    typer.echo(text, err=True)


def print_records(records: Iterable[Any]) -> None:
    """As JSON, an object a line."""
    for record in records:
        print_json(told(record))


def told(record: Any) -> dict[str, object]:
    """As JSON can tell it: bytes as base64, content as the value it stands for, where it does."""
    fields = asdict(record)
    if "content" in fields:
        fields |= _content(record)
        del fields["content"]
    if isinstance(fields.get("state"), bytes):
        fields["state_base64"] = base64.b64encode(fields.pop("state")).decode()
    return fields


def _content(message: Payloaded) -> dict[str, object]:
    if message.content is None:
        return {}
    try:
        payload = message.payload
        json.dumps(payload, allow_nan=False)
    except (LonnyMQError, TypeError, ValueError, RecursionError):
        return {"content_base64": base64.b64encode(message.content).decode()}
    return {"payload": payload}


def print_table(records: Sequence[Record], columns: Sequence[Column[Record]], *, otherwise: str) -> None:
    """`otherwise` is said when there are no records."""
    if not records:
        note(otherwise)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            no_wrap=not column.gives_way,
            min_width=6 if column.gives_way else None,
        )
    for record in records:
        cells = (printable(column.cell(record)) for column in columns)
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
    show(table)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """One thing: a line a field, those that say nothing left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        if value:
            table.add_row(name, Text(value))
    show(table)


def shown_content(message: Payloaded) -> str:
    """For people: the beginning of it is enough."""
    found = _content(message)
    if not found:
        return ""
    text = json.dumps(found["payload"], ensure_ascii=False) if "payload" in found else repr(message.content)
    if len(text) > SHOWN_CONTENT:
        text = f"{text[:SHOWN_CONTENT]} ... (--json has all of it)"
    return printable(text)


def show(table: Table) -> None:
    """As wide as the terminal; into a file or a pipe, as wide as it is, and without blanks at the ends."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    wide = Console(highlight=False, width=UNLIMITED)
    with wide.capture() as captured:
        wide.print(table)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())
