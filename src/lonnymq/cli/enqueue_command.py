"""enqueue: one message, or a file of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from lonnymq.cli.completion import channel_names
from lonnymq.cli.display import moment
from lonnymq.cli.failure import BadValue
from lonnymq.cli.open_queue import opened
from lonnymq.cli.option_flags import flag, with_flags
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.errors import ChannelFull
from lonnymq.formatting import count, printable
from lonnymq.message_options import OPTIONS, Kind, NewMessage

if TYPE_CHECKING:
    from lonnymq.client.produce import Enqueued, OnFull
    from lonnymq.commands import Created

STDIN = Path("-")
MAKE_ROOM = "nothing was enqueued: try again when there is room, or run `lonnymq channels set --max-size`"

Payload = Annotated[
    str | None,
    typer.Argument(help="The payload, as JSON: '{\"invoice\": 7}', '\"a text\"', 7.", show_default=False),
]
File = Annotated[
    Path | None,
    typer.Option(
        help="Enqueue the lines of this file, or of stdin (-): all or none. Each line is an object with a"
        f" payload and, if you like, {', '.join(['channel', *OPTIONS, 'task'])}.",
        show_default=False,
    ),
]
Payloads = Annotated[bool, typer.Option("--payloads", help="Each line of the file is a payload.")]
Text = Annotated[bool, typer.Option("--text", help="The payload is plain text, not JSON.")]
Channel = Annotated[
    str,
    typer.Option(help="The channel; in a file, of lines that name none.", autocompletion=channel_names),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", help="A header, as name=value. Repeat it for more.", show_default=False),
]
Task = Annotated[
    str | None,
    typer.Option(help="Call this task; the payload has its arguments by name.", show_default=False),
]
DropFull = Annotated[
    bool,
    typer.Option("--drop-full", help="Leave out the lines of a file whose channel is full, and count them."),
]
TYPES: dict[Kind, type] = {Kind.NUMBER: int, Kind.TEXT: str, Kind.SECONDS: float, Kind.TIME: str}
FLAGS = {
    name: flag(TYPES[option.kind], option.help)
    if option.kind is Kind.TEXT  # its limits are bytes, which the database counts
    else flag(TYPES[option.kind], option.help, option.least, option.most)
    for name, option in OPTIONS.items()
    if option.is_flag
}


def register(app: typer.Typer) -> None:
    app.command()(enqueue)


@with_flags(FLAGS)
def enqueue(
    payload: Payload = None,
    *,
    file: File = None,
    payloads: Payloads = False,
    text: Text = False,
    channel: Channel = "default",
    header: Header = None,
    task: Task = None,
    drop_full: DropFull = False,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Enqueue one message, or a file with one message per line.

    In a file, the options apply to the lines that do not give their own. If a channel is full, the command
    fails and enqueues nothing, unless you give a file and --drop-full.

    Example: lonnymq enqueue '{"invoice": 7}' --channel acme --delay 60

    Example: lonnymq enqueue --file messages.jsonl
    """
    if options["delay"] is not None and options["run_at"] is not None:
        raise BadValue("--delay and --run-at are both given", "give one of them")
    if options["run_at"] is not None:
        options["run_at"] = moment(options["run_at"])
    message = NewMessage(None, channel, headers=_headers(header, task), **options)
    if file is None and drop_full:
        raise BadValue("--drop-full is for the lines of a file", "give --file")
    try:
        if file is not None:
            _check_file(payload, message.dedupe_key, text=text)
            on_full: OnFull = "return" if drop_full else "raise"
            _enqueue_file(file, message, on_full, dsn, schema, are_payloads=payloads, as_json=as_json)
        else:
            _enqueue_one(
                _one(payload, task, payloads=payloads, text=text), message, dsn, schema, as_json=as_json
            )
    except ChannelFull as error:
        leave_out = "" if file is None else ", or leave out what does not fit with --drop-full"
        raise ChannelFull(error.message, f"{MAKE_ROOM}{leave_out}") from error


def _check_file(payload: str | None, dedupe_key: str | None, *, text: bool) -> None:
    if payload is not None:
        raise BadValue("a payload and --file are both given", "give one of them")
    if dedupe_key is not None:
        raise BadValue("one --dedupe-key for a whole file would create one message", "give each line its own")
    if text:
        raise BadValue("--text is for a payload on the command line", "write the lines of a file as JSON")


def _one(payload: str | None, task: str | None, *, payloads: bool, text: bool) -> object:
    from lonnymq.cli.json_lines import json_value

    if payloads:
        raise BadValue("--payloads is for the lines of a file", "give --file")
    if payload is None and task is not None:
        return {}
    if payload is None:
        raise BadValue("there is nothing to enqueue", "give a payload, such as '{\"invoice\": 7}', or --file")
    if text:
        return payload
    try:
        found = json_value(payload)
    except BadValue as error:
        raise BadValue(
            f"the payload: {error.message}", "quote a text as '\"a text\"', or use --text"
        ) from None
    if task is not None and not isinstance(found, dict):
        raise BadValue(
            "the payload is not an object", "give the task's arguments by name, such as '{\"invoice\": 7}'"
        )
    return found


def _headers(given: list[str] | None, task: str | None) -> dict[str, str] | None:
    from lonnymq.client.produce import TASK_HEADER

    found = {}
    for header in given or []:
        name, is_there, value = header.partition("=")
        if not is_there or not name:
            raise BadValue(f"--header {header} has no name or no =", "write --header name=value")
        found[name] = value
    return found | ({TASK_HEADER: task} if task is not None else {}) or None


def _enqueue_one(
    payload: object, message: NewMessage, dsn: str | None, schema: str, *, as_json: bool
) -> None:
    with opened(dsn, schema) as queue:
        created = queue.enqueue(payload, channel=message.channel, **message.options())
    if as_json:
        print_json({"id": created.id, "result": created.result, "channel": message.channel})
    else:
        typer.echo(_sentence(created, printable(message.channel)))


def _sentence(created: Created, channel: str) -> str:
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
    are_payloads: bool,
    as_json: bool,
) -> None:
    from lonnymq.cli.database import connect
    from lonnymq.cli.json_lines import load, read

    with opened(dsn, schema) as queue, _stream(file) as stream, _progress(file) as (passing, progress):
        lines = read(passing(stream), message, are_payloads=are_payloads)
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
    """On a terminal, show how much of the file has been read, and how many messages were enqueued."""
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
        bar = shown.add_task("enqueueing", total=total)

        def report(so_far: Enqueued) -> None:
            shown.update(bar, completed=seen, description=f"{count(so_far.total)} messages")

        yield passing, report
