"""batches: list, show, close and cancel batches."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.confirm import confirm
from lonnymq.cli.failure import NotThere
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, LAST_ID, Dsn, Json, Limit, Schema, Yes, print_json
from lonnymq.cli.printing import Column, print_page, print_record
from lonnymq.formatting import count, exactly, plural, printable, when
from lonnymq.monitor.server import server_time

if TYPE_CHECKING:
    from lonnymq.commands import BatchStatus

app = typer.Typer(help="List, show, close and cancel batches of messages.", no_args_is_help=True)

Id = Annotated[int, typer.Argument(min=1, max=LAST_ID, help="Id of the batch.", show_default=False)]


class Status(StrEnum):
    OPEN = "open"
    CLOSED = "closed"
    FINISHED = "finished"
    CANCELLED = "cancelled"


@app.command("list")
def list_batches(
    *,
    name: Annotated[str | None, typer.Option(help="Only batches of this name.", show_default=False)] = None,
    status: Annotated[
        Status | None, typer.Option(help="Only batches with this status.", show_default=False)
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
    """List batches and their counts, the newest first.

    Example: lonnymq batches list --status closed
    """
    with opened(dsn, schema) as queue:
        found = queue.batches(
            name=name, status=None if status is None else str(status), after=after, limit=limit
        )
        now = server_time(queue)
    print_page(
        found,
        _columns(now),
        limit=limit,
        cursor=lambda batch: str(batch.id),
        otherwise="There are no batches.",
        as_json=as_json,
    )


@app.command()
def show(batch_id: Id, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Show a batch and its counts.

    Example: lonnymq batches show 7
    """
    with opened(dsn, schema) as queue:
        found = queue.batch_status(batch_id)
        now = server_time(queue)
    if found is None:
        raise _missing(batch_id)
    print_record(found, lambda batch: _fields(batch, now), as_json=as_json)


@app.command()
def close(batch_id: Id, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Close a batch that a program has left open: it is finished when its messages are.

    Example: lonnymq batches close 7
    """
    with opened(dsn, schema) as queue:
        result = queue.close_batch(batch_id)
    if result == "not_found":
        raise _missing(batch_id)
    if as_json:
        print_json({"id": batch_id, "result": str(result)})
    else:
        typer.echo(f"{result}: batch {batch_id}")


@app.command()
def cancel(
    batch_id: Id,
    *,
    yes: Yes = False,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Cancel a batch: close it, drop its callbacks and cancel its messages.

    Example: lonnymq batches cancel 7
    """
    with opened(dsn, schema) as queue:
        found = queue.batch_status(batch_id)
        if found is None:
            raise _missing(batch_id)
        left = plural(found.waiting + found.leased, "unfinished message")
        confirm(f"Cancel batch {batch_id}, '{printable(found.name)}', with {left}?", yes=yes)
        done = queue.cancel_batch(batch_id)
    if as_json:
        print_json({"id": batch_id, "result": str(done.result), "messages": done.messages})
    elif done.result == "finished":
        typer.echo(f"finished: batch {batch_id} has nothing left to cancel")
    else:
        typer.echo(f"{done.result}: batch {batch_id}, {plural(done.messages, 'message')}")


def _missing(batch_id: int) -> NotThere:
    return NotThere(f"there is no batch {batch_id}", "`lonnymq batches list` lists the batches")


def _columns(now: int) -> list[Column[BatchStatus]]:
    return [
        Column("id", lambda batch: str(batch.id), is_number=True),
        Column("name", lambda batch: batch.name, gives_way=True),
        Column("status", lambda batch: batch.status),
        Column("total", lambda batch: count(batch.total), is_number=True),
        Column("waiting", lambda batch: count(batch.waiting), is_number=True),
        Column("leased", lambda batch: count(batch.leased), is_number=True),
        Column("completed", lambda batch: count(batch.completed), is_number=True),
        Column("dead", lambda batch: count(batch.dead), is_number=True),
        Column("cancelled", lambda batch: count(batch.cancelled), is_number=True),
        Column("opened", lambda batch: when(batch.created_at, now)),
    ]


def _fields(batch: BatchStatus, now: int) -> list[tuple[str, str]]:
    return [
        ("id", str(batch.id)),
        ("name", printable(batch.name)),
        ("status", batch.status),
        ("total", count(batch.total)),
        ("waiting", count(batch.waiting)),
        ("leased", count(batch.leased)),
        ("completed", count(batch.completed)),
        ("dead", count(batch.dead)),
        ("cancelled", count(batch.cancelled)),
        ("opened", exactly(batch.created_at, now)),
        ("closed", exactly(batch.closed_at, now)),
        ("first dead message", "" if batch.failed_id is None else str(batch.failed_id)),
        ("first death", exactly(batch.failed_at, now)),
        ("cancelled at", exactly(batch.cancelled_at, now)),
        ("finished", exactly(batch.finished_at, now)),
    ]
