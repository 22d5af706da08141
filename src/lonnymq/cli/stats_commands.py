"""stats, history: the numbers of the queue, and its finished messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from lonnymq.cli.display import gist, moment
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Limit, OfChannel, Schema
from lonnymq.cli.printing import Column, note, print_list, print_record
from lonnymq.cli.worker_commands import task_names
from lonnymq.formatting import count, duration, exactly, when
from lonnymq.monitor.server import dispatch, server_time

if TYPE_CHECKING:
    from datetime import datetime

    from lonnymq.client.queue import Queue
    from lonnymq.commands import FinishedMessage, QueueStatistics, TaskSummary

Record = TypeVar("Record")

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
    summary: Annotated[
        bool,
        typer.Option("--summary", help="Summarize by task instead, from the newest 10,000 messages at most."),
    ] = False,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """List finished messages, latest first. Needs a queue that keeps a history.

    Example: lonnymq history --channel acme --since 2030-12-31T09:00

    Example: lonnymq history --summary
    """
    begin = None if since is None else moment(since)
    with opened(dsn, schema) as queue:
        if summary:
            _summarize(queue, channel, begin, as_json=as_json)
            return
        found = queue.history(channel=channel, since=begin, limit=limit)
        is_kept = bool(found) or queue.settings().history
        now = server_time(queue)
    _print(found, _columns(now), is_kept=is_kept, as_json=as_json)


def _summarize(queue: Queue, channel: str | None, since: datetime | None, *, as_json: bool) -> None:
    found = queue.history_summary(channel=channel, since=since)
    is_kept = bool(found) or queue.settings().history
    _print(found, _summary_columns(), is_kept=is_kept, as_json=as_json)
    if found and found[0].has_more and not as_json:
        read = sum(task.messages for task in found)
        note(f"These are the newest {count(read)}, from {exactly(found[0].from_at, server_time(queue))} on.")


def _print(
    found: Sequence[Record], columns: Sequence[Column[Record]], *, is_kept: bool, as_json: bool
) -> None:
    otherwise = "No message has finished." if is_kept else NO_HISTORY
    print_list(found, columns, otherwise=otherwise, as_json=as_json)
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
        Column("waited", lambda message: _duration(message.waited_ms), is_number=True),
        Column("worked", lambda message: _duration(message.worked_ms), is_number=True),
        Column("attempts", lambda message: str(message.attempts), is_number=True),
        Column("error", lambda message: gist(message.error), gives_way=True),
    ]


def _summary_columns() -> list[Column[TaskSummary]]:
    return [
        Column("task", lambda task: task.task or "", gives_way=True),
        Column("finished", lambda task: count(task.messages), is_number=True),
        Column("dead", lambda task: count(task.dead), is_number=True),
        Column("cancelled", lambda task: count(task.cancelled), is_number=True),
        Column("attempts", lambda task: f"{task.attempts_mean:.2f}", is_number=True),
        Column("waited p50", lambda task: _duration(task.waited_p50_ms), is_number=True),
        Column("p95", lambda task: _duration(task.waited_p95_ms), is_number=True),
        Column("p99", lambda task: _duration(task.waited_p99_ms), is_number=True),
        Column("worked p50", lambda task: _duration(task.worked_p50_ms), is_number=True),
        Column("p95", lambda task: _duration(task.worked_p95_ms), is_number=True),
        Column("p99", lambda task: _duration(task.worked_p99_ms), is_number=True),
    ]


def _duration(milliseconds: float | None) -> str:
    return "" if milliseconds is None else duration(round(milliseconds))
