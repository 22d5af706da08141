"""messages: list, show, cancel and reschedule messages that wait or are leased."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.confirm import confirm
from lonnymq.cli.display import attempts_of, due, gist
from lonnymq.cli.failure import NotThere
from lonnymq.cli.message_outcomes import print_outcomes
from lonnymq.cli.message_status import finished_fields, finished_json, progress_json, progress_text
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import (
    DEFAULT_SCHEMA,
    LAST_ID,
    Dsn,
    Json,
    Limit,
    OfChannel,
    OfLane,
    Schema,
    Yes,
    print_json,
)
from lonnymq.cli.printing import Column, json_fields, print_fields, print_page, shown_payload
from lonnymq.formatting import count, duration, exactly, plural, printable, size, when
from lonnymq.monitor.server import server_time

if TYPE_CHECKING:
    from lonnymq.commands import ListedMessage, Message, Status

MEANINGS = {
    "cancelled": "it is gone",
    "marked": "its worker will notice when it next extends or finishes the message",
    "rescheduled": "it is due now",
    "leased": "a worker has it",
    "dead": "use `lonnymq dead retry` or `lonnymq dead discard`",
    "not_found": "no such message: it has finished, or never existed",
}

app = typer.Typer(help="List, show, cancel and reschedule messages.", no_args_is_help=True)

Id = Annotated[int, typer.Argument(min=1, max=LAST_ID, help="Id of the message.", show_default=False)]
Ids = Annotated[
    list[int], typer.Argument(min=1, max=LAST_ID, help="Ids of the messages.", show_default=False)
]


class MessageStatus(StrEnum):
    """The statuses to list; `dead list` lists dead messages."""

    WAITING = "waiting"
    DUE = "due"
    SCHEDULED = "scheduled"
    LEASED = "leased"


@app.command("list")
def list_messages(
    *,
    channel: OfChannel = None,
    status: Annotated[
        MessageStatus,
        typer.Option(
            help="`waiting` is both `due` and `scheduled` for later; `leased` messages are being worked on."
        ),
    ] = MessageStatus.WAITING,
    lane: OfLane = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            help="Only leased messages that this consumer has: the name of a worker.", show_default=False
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(help="Next page: start after this cursor.", show_default=False),
    ] = None,
    limit: Limit = 50,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """List messages without their payloads, in the order in which each channel is served.

    Example: lonnymq messages list --channel acme --status due

    Example: lonnymq messages list --status leased --consumer mail-1
    """
    with opened(dsn, schema) as queue:
        found = queue.messages(
            channel=channel, status=status, lane=lane, consumer=consumer, after=after, limit=limit
        )
        now = server_time(queue)
    print_page(
        found,
        _columns(now),
        limit=limit,
        cursor=lambda message: message.cursor,
        otherwise=f"There are no {status} messages.",
        as_json=as_json,
    )


@app.command()
def show(message_id: Id, *, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Show everything about a message, with its payload, progress and result.

    A message that has finished is shown while its result is kept, or if the queue keeps a history.

    Example: lonnymq messages show 7
    """
    from lonnymq.client.calls import ask
    from lonnymq.commands import StatusGet

    with opened(dsn, schema) as queue:
        found = queue.get(message_id)
        status = queue.perform(ask(StatusGet(message_id, with_result=True)))
        now = server_time(queue)
    if found is None and not status.is_finished:
        raise NotThere(
            f"no message {message_id}: it has finished, or never existed",
            "finished messages are shown if they were enqueued with --keep-result, or if the queue keeps a"
            " history: `lonnymq queue set --history`",
        )
    if as_json:
        print_json(finished_json(status) if found is None else json_fields(found) | progress_json(status))
    else:
        print_fields(finished_fields(status, now) if found is None else fields(found, now, status))


@app.command()
def cancel(
    message_ids: Ids,
    *,
    yes: Yes = False,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Cancel messages. Waiting ones are deleted; for leased ones, the worker is told to stop.

    Example: lonnymq messages cancel 7 8
    """
    with opened(dsn, schema) as queue:
        confirm(f"Cancel {plural(len(message_ids), 'message')}?", yes=yes)
        outcomes = queue.cancel_many(message_ids)
    print_outcomes(outcomes, {"cancelled", "marked"}, MEANINGS, as_json=as_json)


@app.command("run-now")
def run_now(
    message_ids: Ids,
    *,
    first: Annotated[
        bool,
        typer.Option("--first", help="Also move them ahead of all messages of their channel and priority."),
    ] = False,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Make scheduled messages due now.

    Example: lonnymq messages run-now 7 --first
    """
    from lonnymq.commands import Outcome

    with opened(dsn, schema) as queue:
        outcomes = [
            Outcome(message_id, queue.reschedule(message_id, first=first)) for message_id in message_ids
        ]
    print_outcomes(outcomes, {"rescheduled"}, MEANINGS, as_json=as_json)


def fields(message: Message, now: int, status: Status | None = None) -> list[tuple[str, str]]:
    """The fields to show of a message, waiting, leased or dead. Its progress is in its status."""
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
        ("progress", "" if status is None else progress_text(status, now)),
        ("died", exactly(message.dead_at, now)),
        ("attempts", attempts_of(message.attempts, message.max_attempts)),
        ("consumer", printable(message.consumer or "")),
        ("dedupe key", printable(message.dedupe_key or "")),
        ("key held", _key_is_held(message)),
        ("batch", "" if message.batch_id is None else str(message.batch_id)),
        ("headers", printable(headers)),
        ("error", _text(message.error)),
        ("past errors", _past_errors(message, now)),
        ("state", "" if message.state is None else printable(repr(message.state)[1:])),
        ("size", size(len(message.content))),
        ("payload", shown_payload(message)),
    ]


def _key_is_held(message: Message) -> str:
    if message.dedupe_key is None:
        return ""
    if message.unique_for_ms is None:
        return "while it waits"
    after = f"{duration(message.unique_for_ms)} after " if message.unique_for_ms else ""
    return f"until {after}it has finished"


def _text(text: str | None) -> str:
    """An error may be a traceback: keep its line breaks."""
    return "\n".join(printable(line) for line in (text or "").splitlines())


def _past_errors(message: Message, now: int) -> str:
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
        Column(
            "attempts", lambda message: attempts_of(message.attempts, message.max_attempts), is_number=True
        ),
        Column("size", lambda message: size(message.content_bytes), is_number=True),
        Column("about", _about, gives_way=True),
    ]


def _when(message: ListedMessage, now: int) -> str:
    if message.lease_end_at is not None:
        has_ended = message.lease_end_at < now
        return f"{'ended' if has_ended else 'ends'} {when(message.lease_end_at, now)}"
    return due(message.dequeue_at, now)


def _about(message: ListedMessage) -> str:
    """Its task and its consumer, or else its last error, its task or its dedupe key."""
    from lonnymq.client.produce import TASK_HEADER

    headers = message.headers if isinstance(message.headers, dict) else {}
    task = str(headers.get(TASK_HEADER) or "")
    if message.lease_end_at is not None and message.consumer:
        return f"{task} at {message.consumer}".lstrip()
    return gist(message.error) or task or message.dedupe_key or ""
