"""stats, history: the numbers of the queue, and its finished messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.display import gist, moment
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Limit, OfChannel, Schema
from lonnymq.cli.printing import Column, note, print_list, print_record
from lonnymq.cli.worker_commands import task_names
from lonnymq.formatting import count, duration, exactly, when
from lonnymq.monitor.server import dispatch, server_time

if TYPE_CHECKING:
    from lonnymq.commands import FinishedMessage, QueueStatistics

CAP = 10_000
NO_HISTORY = "This queue does not keep a history. Start one with `lonnymq queue set --history`."


def register(app: typer.Typer) -> None:
    for command in (stats, history):
        app.command()(command)


def stats(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Show how many messages are waiting, leased and dead. Costs the same however many there are.

    Example: lonnymq stats --json
    """
    with opened(dsn, schema) as queue:
        dispatch(queue)
        found = queue.stats()
        now = server_time(queue)
    print_record(found, lambda stats: _fields(stats, now), as_json=as_json)


def history(
    *,
    channel: OfChannel = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only messages finished at this time or later, e.g. 2030-12-31T09:00.", show_default=False
        ),
    ] = None,
    limit: Limit = 50,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """List finished messages, latest first. Needs a queue that keeps a history.

    Example: lonnymq history --channel acme --since 2030-12-31T09:00
    """
    begin = None if since is None else moment(since)
    with opened(dsn, schema) as queue:
        found = queue.history(channel=channel, since=begin, limit=limit)
        is_kept = bool(found) or queue.settings().history
        now = server_time(queue)
    otherwise = "No message has finished." if is_kept else NO_HISTORY
    print_list(found, _columns(now), otherwise=otherwise, as_json=as_json)
    if as_json and not is_kept:
        note(NO_HISTORY)


def _fields(found: QueueStatistics, now: int) -> list[tuple[str, str]]:
    return [
        ("state", "paused" if found.paused else found.blocked_by or "ready"),
        ("waiting", _known(found.waiting)),
        ("due", _known(found.due)),
        ("scheduled", _known(found.scheduled)),
        ("leased", count(found.leased, CAP)),
        ("dead", count(found.dead, CAP)),
        ("oldest due", "" if found.oldest_due_ms is None else duration(found.oldest_due_ms)),
        ("served", count(found.served)),
        ("last served", exactly(found.last_served_at, now)),
        ("max concurrency", "no limit" if found.max_concurrency is None else _used(found)),
        ("workers", count(found.workers)),
        ("unknown tasks", task_names(found.unknown_tasks)),
    ]


def _known(number: int | None) -> str:
    return "unknown" if number is None else count(number)


def _used(found: QueueStatistics) -> str:
    return f"{count(found.running or 0)} of {count(found.max_concurrency or 0)} in use"


def _columns(now: int) -> list[Column[FinishedMessage]]:
    return [
        Column("id", lambda message: str(message.id), is_number=True),
        Column("channel", lambda message: message.channel, gives_way=True),
        Column("lane", lambda message: message.lane, gives_way=True),
        Column("outcome", lambda message: message.outcome),
        Column("finished", lambda message: when(message.finished_at, now)),
        Column("waited", _waited, is_number=True),
        Column("worked", _worked, is_number=True),
        Column("attempts", lambda message: str(message.attempts), is_number=True),
        Column("error", lambda message: gist(message.error), gives_way=True),
    ]


def _waited(message: FinishedMessage) -> str:
    """From when it was first due until it was first dequeued."""
    if message.first_dequeued_at is None:
        return ""
    return duration(max(0, message.first_dequeued_at - max(message.created_at, message.dequeue_at)))


def _worked(message: FinishedMessage) -> str:
    """Duration of the last attempt. A cancelled message may never have been worked on."""
    if message.dequeued_at is None or message.outcome == "cancelled":
        return ""
    return duration(max(0, message.finished_at - message.dequeued_at))
