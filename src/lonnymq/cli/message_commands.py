"""messages: those that wait or are leased, one by one."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.confirm import confirm
from lonnymq.cli.failure import NotThere
from lonnymq.cli.formatting import count, due, exactly, gist, printable, size, tries, when
from lonnymq.cli.message_outcomes import print_outcomes
from lonnymq.cli.open_queue import opened, server_time
from lonnymq.cli.options import Dsn, Json, Limit, OfChannel, Schema, Yes
from lonnymq.cli.printing import Column, note, print_fields, print_records, print_table, shown_content

if TYPE_CHECKING:
    from lonnymq.commands import ListedMessage, Message

SCHEMA = "lonnymq"
LAST_ID = 2**63 - 1
MEANS = {
    "cancelled": "it is gone",
    "marked": "its worker is told when it next extends or finishes it",
    "rescheduled": "it is due now",
    "leased": "a worker has it already",
    "dead": "it is dead: `lonnymq dead retry` or `discard` is for those",
    "not_found": "there is no such message: it has finished, or never was",
}

app = typer.Typer(help="Messages: list, show, cancel, run now.", no_args_is_help=True)

Id = Annotated[int, typer.Argument(min=1, max=LAST_ID, help="The message's id.", show_default=False)]
Ids = Annotated[list[int], typer.Argument(min=1, max=LAST_ID, help="The messages' ids.", show_default=False)]


class Status(StrEnum):
    """What to list; the dead have a list of their own."""

    WAITING = "waiting"
    DUE = "due"
    SCHEDULED = "scheduled"
    LEASED = "leased"


@app.command("list")
def list_messages(
    *,
    channel: OfChannel = None,
    status: Annotated[
        Status,
        typer.Option(help="Waiting ones, of these the due or the scheduled alone, or those being worked on."),
    ] = Status.WAITING,
    after: Annotated[
        str | None,
        typer.Option(help="The next page: begin after this cursor.", show_default=False),
    ] = None,
    limit: Limit = 50,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """List messages, without their content, in the order in which each channel is served.

    Example: lonnymq messages list --channel acme --status due
    """
    with opened(dsn, schema) as queue:
        found = queue.messages(channel=channel, status=status, after=after, limit=limit)
        now = server_time(queue)
    if as_json:
        print_records(found)
        return
    print_table(found, _columns(now), otherwise=f"There are no {status} messages.")
    if len(found) == limit:
        note(f"For more: --after {shlex.quote(found[-1].cursor)}")


@app.command()
def show(message_id: Id, *, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Show all there is to know of a message that waits, is leased or dead, with its content.

    Example: lonnymq messages show 7
    """
    with opened(dsn, schema) as queue:
        found = queue.get(message_id)
        now = server_time(queue)
    if found is None:
        raise NotThere(
            f"there is no message {message_id}: it has finished, or never was",
            "`lonnymq history` has those that finished, if the queue keeps a history",
        )
    if as_json:
        print_records([found])
    else:
        print_fields(fields(found, now))


@app.command()
def cancel(
    message_ids: Ids, *, yes: Yes = False, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False
) -> None:
    """Cancel messages: those that wait are gone; of those being worked on, the workers are told.

    Example: lonnymq messages cancel 7 8
    """
    with opened(dsn, schema) as queue:
        confirm(f"Cancel {len(message_ids)} message(s)?", yes=yes)
        outcomes = queue.cancel_many(message_ids)
    print_outcomes(outcomes, {"cancelled", "marked"}, MEANS, as_json=as_json)


@app.command("run-now")
def run_now(
    message_ids: Ids,
    *,
    first: Annotated[
        bool, typer.Option("--first", help="And ahead of those of its channel and priority.")
    ] = False,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Make waiting messages due now, and with --first the next of their channel and priority.

    Example: lonnymq messages run-now 7 --first
    """
    from lonnymq.commands import Outcome

    with opened(dsn, schema) as queue:
        outcomes = [
            Outcome(message_id, queue.reschedule(message_id, first=first)) for message_id in message_ids
        ]
    print_outcomes(outcomes, {"rescheduled"}, MEANS, as_json=as_json)


def fields(message: Message, now: int) -> list[tuple[str, str]]:
    """What is shown of a message, dead or alive."""
    headers = json.dumps(message.headers, ensure_ascii=False) if message.headers else ""
    return [
        ("id", str(message.id)),
        ("channel", printable(message.channel)),
        ("lane", printable(message.lane)),
        ("priority", str(message.priority)),
        ("cost", count(message.cost)),
        ("status", f"{message.status}, cancelled" if message.is_cancelled else message.status),
        ("due", due(message.dequeue_at, now, is_exact=True)),
        ("created", exactly(message.created_at, now)),
        ("first taken", exactly(message.first_dequeued_at, now)),
        ("last taken", exactly(message.dequeued_at, now)),
        ("lease ends", exactly(message.lease_end_at, now)),
        ("died", exactly(message.dead_at, now)),
        ("attempts", tries(message.attempts, message.max_attempts)),
        ("consumer", printable(message.consumer or "")),
        ("dedupe key", printable(message.dedupe_key or "")),
        ("headers", printable(headers)),
        ("error", _text(message.error)),
        ("past errors", _past(message, now)),
        ("state", "" if message.state is None else printable(repr(message.state)[1:])),
        ("size", size(len(message.content))),
        ("content", shown_content(message)),
    ]


def _text(text: str | None) -> str:
    """An error may be a traceback, which is read in lines."""
    return "\n".join(printable(line) for line in (text or "").splitlines())


def _past(message: Message, now: int) -> str:
    return "\n".join(
        f"{when(past['at'], now)}: {printable(gist(past['error']))}" for past in message.past_errors or []
    )


def _columns(now: int) -> list[Column[ListedMessage]]:
    return [
        Column("id", lambda message: str(message.id), is_number=True),
        Column("channel", lambda message: message.channel, gives_way=True),
        Column("lane", lambda message: message.lane, gives_way=True),
        Column("priority", lambda message: str(message.priority), is_number=True),
        Column("status", lambda message: "cancelled" if message.is_cancelled else message.status),
        Column("when", lambda message: _when(message, now)),
        Column("tries", lambda message: tries(message.attempts, message.max_attempts), is_number=True),
        Column("size", lambda message: size(message.content_bytes), is_number=True),
        Column("about", _about, gives_way=True),
    ]


def _when(message: ListedMessage, now: int) -> str:
    if message.lease_end_at is not None:
        is_over = message.lease_end_at < now
        return f"{'ended' if is_over else 'ends'} {when(message.lease_end_at, now)}"
    return due(message.dequeue_at, now)


def _about(message: ListedMessage) -> str:
    """Who has it, else what went wrong, else what it is."""
    if message.lease_end_at is not None and message.consumer:
        return f"at {message.consumer}"
    from lonnymq.client.produce import TASK_HEADER

    headers = message.headers if isinstance(message.headers, dict) else {}
    return gist(message.error) or str(headers.get(TASK_HEADER) or "") or message.dedupe_key or ""
