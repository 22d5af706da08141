"""enqueue: one message, or a file of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from lonnymq.cli.completion import channel_names
from lonnymq.cli.failure import BadValue
from lonnymq.cli.formatting import count, moment, printable
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import Dsn, Json, Schema, print_json
from lonnymq.errors import ChannelFull

if TYPE_CHECKING:
    from lonnymq.client.produce import Enqueued, NewMessage, OnFull
    from lonnymq.commands import Created

SCHEMA = "lonnymq"
STDIN = Path("-")
MAKE_ROOM = "nothing was queued: try again when there is room, or run `lonnymq channels set --max-size`"

Value = Annotated[
    str | None,
    typer.Argument(help="The message, as JSON: '{\"invoice\": 7}', '\"a text\"', 7.", show_default=False),
]
File = Annotated[
    Path | None,
    typer.Option(
        help="Queue the lines of this file, or of stdin (-): all or none. Each is an object with a value, and"
        " channel, delay, run_at, priority, cost, lane, dedupe_key, headers, task, max_attempts if it wants.",
        show_default=False,
    ),
]
Values = Annotated[bool, typer.Option("--values", help="Each line of the file is a value itself.")]
Text = Annotated[bool, typer.Option("--text", help="Take the message as a text, not as JSON.")]
Channel = Annotated[
    str,
    typer.Option(help="Into this channel; of a file, where a line names none.", autocompletion=channel_names),
]
Delay = Annotated[
    float | None, typer.Option(min=0, help="Not before so many seconds from now.", show_default=False)
]
RunAt = Annotated[
    str | None, typer.Option(help="Not before this time, as 2030-12-31T09:00.", show_default=False)
]
Priority = Annotated[
    int | None,
    typer.Option(min=-100, max=100, help="Higher ones go first within their channel.", show_default=False),
]
Cost = Annotated[
    int | None,
    typer.Option(min=1, max=1_000_000, help="Counts as so many messages of its channel.", show_default=False),
]
Lane = Annotated[
    str | None, typer.Option(help="For consumers of this lane; else of `default`.", show_default=False)
]
DedupeKey = Annotated[
    str | None,
    typer.Option(help="Make no second one while one with this key is there.", show_default=False),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", help="As name=value; any number of times.", show_default=False),
]
Task = Annotated[
    str | None,
    typer.Option(
        help="For a worker's task of this name; the value has its arguments by name.", show_default=False
    ),
]
DropFull = Annotated[
    bool,
    typer.Option("--drop-full", help="Of a file, leave out lines whose channel is full, and count them."),
]
MaxAttempts = Annotated[
    int | None,
    typer.Option(min=1, help="How often it is tried before it is dead.", show_default=False),
]


def register(app: typer.Typer) -> None:
    app.command()(enqueue)


def enqueue(
    value: Value = None,
    *,
    file: File = None,
    values: Values = False,
    text: Text = False,
    channel: Channel = "default",
    delay: Delay = None,
    run_at: RunAt = None,
    priority: Priority = None,
    cost: Cost = None,
    lane: Lane = None,
    dedupe_key: DedupeKey = None,
    header: Header = None,
    task: Task = None,
    max_attempts: MaxAttempts = None,
    drop_full: DropFull = False,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Queue one message, or a file with one on each line.

    Of a file, options are for those lines that do not say otherwise themselves. When a channel is full, the
    command fails and queues nothing, unless a file is given with --drop-full.

    Example: lonnymq enqueue '{"invoice": 7}' --channel acme --delay 60

    Example: lonnymq enqueue --file messages.jsonl
    """
    from lonnymq.client.produce import NewMessage

    message = NewMessage(
        None,
        channel,
        None if run_at is None else moment(run_at),
        delay,
        priority,
        dedupe_key,
        _headers(header, task),
        max_attempts,
        cost=cost,
        lane=lane,
    )
    if delay is not None and run_at is not None:
        raise BadValue("--delay and --run-at both say when", "give one of them")
    if file is None and drop_full:
        raise BadValue("--drop-full is about the lines of a file", "give --file")
    try:
        if file is not None:
            _check_file(value, dedupe_key, text=text)
            on_full: OnFull = "return" if drop_full else "raise"
            _enqueue_file(file, message, on_full, dsn, schema, are_values=values, as_json=as_json)
        else:
            _enqueue_one(_one(value, task, values=values, text=text), message, dsn, schema, as_json=as_json)
    except ChannelFull as error:
        leave_out = "" if file is None else ", or leave out what does not fit with --drop-full"
        raise ChannelFull(error.message, f"{MAKE_ROOM}{leave_out}") from error


def _check_file(value: str | None, dedupe_key: str | None, *, text: bool) -> None:
    if value is not None:
        raise BadValue("a value and a --file are one too many", "give one of them")
    if dedupe_key is not None:
        raise BadValue("one --dedupe-key for a whole file would make one message", "give each line its own")
    if text:
        raise BadValue("--text is for a message on the command line", "lines of a file are JSON")


def _one(value: str | None, task: str | None, *, values: bool, text: bool) -> object:
    from lonnymq.cli.json_lines import json_value

    if values:
        raise BadValue("--values is about the lines of a file", "give --file")
    if value is None and task is not None:
        return {}
    if value is None:
        raise BadValue("there is nothing to queue", "give a value, as '{\"invoice\": 7}', or --file")
    if text:
        return value
    try:
        found = json_value(value)
    except BadValue as error:
        raise BadValue(
            f"of the value: {error.message}", "quote a text as '\"a text\"', or say --text"
        ) from None
    if task is not None and not isinstance(found, dict):
        raise BadValue("the value is no object", "a task takes its arguments by name, as '{\"invoice\": 7}'")
    return found


def _headers(given: list[str] | None, task: str | None) -> dict[str, str] | None:
    from lonnymq.client.produce import TASK_HEADER

    found = {}
    for header in given or []:
        name, is_there, value = header.partition("=")
        if not is_there or not name:
            raise BadValue(f"--header {header} is no header", "write --header name=value")
        found[name] = value
    return found | ({TASK_HEADER: task} if task is not None else {}) or None


def _enqueue_one(value: object, message: NewMessage, dsn: str | None, schema: str, *, as_json: bool) -> None:
    with opened(dsn, schema) as queue:
        created = queue.enqueue(
            value,
            channel=message.channel,
            run_at=message.run_at,
            delay=message.delay,
            priority=message.priority,
            cost=message.cost,
            lane=message.lane,
            dedupe_key=message.dedupe_key,
            headers=message.headers,
            max_attempts=message.max_attempts,
        )
    if as_json:
        print_json({"id": created.id, "result": created.result, "channel": message.channel})
    else:
        typer.echo(_told(created, printable(message.channel)))


def _told(created: Created, channel: str) -> str:
    if created.result == "duplicate":
        return f"duplicate: message {created.id} in channel {channel} has the key"
    return f"created: message {created.id} in channel {channel}"


def _enqueue_file(
    file: Path,
    message: NewMessage,
    on_full: OnFull,
    dsn: str | None,
    schema: str,
    *,
    are_values: bool,
    as_json: bool,
) -> None:
    from lonnymq.cli.database import connect
    from lonnymq.cli.json_lines import load, read

    with opened(dsn, schema) as queue, _stream(file) as stream, _progress(file) as (passing, progress):
        lines = read(passing(stream), message, are_values=are_values)
        done = load(queue, lambda: connect(dsn), lines, progress, on_full)
    if as_json:
        print_json({"created": done.created, "duplicates": done.duplicates, "full": done.full})
    else:
        left_out = f", {count(done.full)} left out: their channel is full" if done.full else ""
        typer.echo(f"{count(done.created)} created, {count(done.duplicates)} duplicates{left_out}")


@contextmanager
def _stream(file: Path) -> Iterator[BinaryIO]:
    if file == STDIN:
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise BadValue(f"{file} cannot be read: {error.strerror}") from None
    with stream:
        yield stream


Passing = Callable[[Iterable[bytes]], Iterator[bytes]]
Progress = Callable[["Enqueued"], None]


@contextmanager
def _progress(file: Path) -> Iterator[tuple[Passing, Progress]]:
    """On a terminal, a bar of how much of the file was read, and what came of it so far."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    total = None if file == STDIN or not file.is_file() else file.stat().st_size
    seen = 0

    def passing(raw: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal seen
        for line in raw:
            seen += len(line)
            yield line

    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as shown:
        bar = shown.add_task("queueing", total=total)

        def told(so_far: Enqueued) -> None:
            shown.update(bar, completed=seen, description=f"{count(so_far.total)} messages")

        yield passing, told
