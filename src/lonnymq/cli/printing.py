"""Prints data to stdout, as a table or as JSON, and notes to stderr."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

import typer

from lonnymq.cli.options import print_json
from lonnymq.errors import LonnyMQError
from lonnymq.formatting import printable

if TYPE_CHECKING:
    from rich.table import Table

    from lonnymq.payload import Payloaded

Record = TypeVar("Record")

PIPE_WIDTH = 100_000
"""Columns in a file or a pipe, where nothing is cut off."""
SHOWN_CHARACTERS = 2_000


@dataclass(frozen=True)
class Column(Generic[Record]):
    """`gives_way`: this column is cut off where the terminal is too narrow."""

    title: str
    cell: Callable[[Record], str]
    is_number: bool = False
    gives_way: bool = False


def note(text: str) -> None:
    typer.echo(text, err=True)


def print_records(records: Iterable[Any]) -> None:
    """As JSON, one object per line."""
    for record in records:
        print_json(json_fields(record))


def json_fields(record: Any) -> dict[str, object]:
    """The fields as JSON values: the decoded payload where JSON can hold it, other bytes as base64."""
    fields = asdict(record)
    if "content" in fields:
        fields |= _payload(record)
        del fields["content"]
    if isinstance(fields.get("id"), UUID):
        fields["id"] = str(fields["id"])
    if isinstance(fields.get("state"), bytes):
        fields["state_base64"] = base64.b64encode(fields.pop("state")).decode()
    return fields


def _payload(message: Payloaded) -> dict[str, object]:
    if message.content is None:
        return {}
    try:
        payload = message.payload
        json.dumps(payload, allow_nan=False)
    except (LonnyMQError, TypeError, ValueError, RecursionError):
        return {"content_base64": base64.b64encode(message.content).decode()}
    return {"payload": payload}


def print_table(records: Sequence[Record], columns: Sequence[Column[Record]], *, otherwise: str) -> None:
    """`otherwise` is printed to stderr if there are no records."""
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


def print_list(
    records: Sequence[Record], columns: Sequence[Column[Record]], *, otherwise: str, as_json: bool
) -> None:
    if as_json:
        print_records(records)
    else:
        print_table(records, columns, otherwise=otherwise)


def print_page(
    records: Sequence[Record],
    columns: Sequence[Column[Record]],
    *,
    limit: int,
    cursor: Callable[[Record], str],
    otherwise: str,
    as_json: bool,
) -> None:
    """A list that may continue: with people, say how to get the next page. JSON has the cursor in each
    record.
    """
    print_list(records, columns, otherwise=otherwise, as_json=as_json)
    if len(records) == limit and not as_json:
        note(f"For more: --after {shlex.quote(cursor(records[-1]))}")


def print_record(
    record: Record, fields: Callable[[Record], Iterable[tuple[str, str]]], *, as_json: bool
) -> None:
    if as_json:
        print_records([record])
    else:
        print_fields(fields(record))


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """One record, one line per field. Empty fields are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        if value:
            table.add_row(name, Text(value))
    show(table)


def shown_payload(message: Payloaded) -> str:
    """The start of the payload, for people."""
    found = _payload(message)
    if not found:
        return ""
    text = json.dumps(found["payload"], ensure_ascii=False) if "payload" in found else repr(message.content)
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[:SHOWN_CHARACTERS]} ... (--json prints all of it)"
    return printable(text)


def show(table: Table) -> None:
    """Fit the table to the terminal. In a file or a pipe, print its full width without trailing blanks."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    wide = Console(highlight=False, width=PIPE_WIDTH)
    with wide.capture() as captured:
        wide.print(table)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())
