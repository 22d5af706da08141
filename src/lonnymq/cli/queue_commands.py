"""queue: the settings of the queue as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.failure import BadValue
from lonnymq.cli.formatting import MINUTE, SECOND, count, span
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import Dsn, Json, Schema
from lonnymq.cli.printing import print_fields, print_records

if TYPE_CHECKING:
    from lonnymq.commands import QueueSettings

SCHEMA = "lonnymq"

app = typer.Typer(help="The queue as a whole: show and change its settings.", no_args_is_help=True)


@app.command()
def show(*, dsn: Dsn = None, schema: Schema = SCHEMA, as_json: Json = False) -> None:
    """Show the queue's settings.

    Example: lonnymq queue show
    """
    with opened(dsn, schema) as queue:
        settings = queue.settings()
    _print(settings, as_json=as_json)


@app.command("set")
def set_settings(
    *,
    max_concurrency: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="At most so many are worked on at once, over all channels; 0: no limit.",
            show_default=False,
        ),
    ] = None,
    paused: Annotated[
        bool | None,
        typer.Option("--paused/--not-paused", help="Serve nothing, of any channel.", show_default=False),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            min=1, help="How often a message is tried, unless it says otherwise.", show_default=False
        ),
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(min=0.001, help="Seconds of a lease that names none itself.", show_default=False),
    ] = None,
    lease_max: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds of the longest lease.", show_default=False)
    ] = None,
    content_max_bytes: Annotated[
        int | None, typer.Option(min=1, help="The size of the largest message.", show_default=False)
    ] = None,
    dedupe_keep: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds for which a dedupe key is held after its message.", show_default=False
        ),
    ] = None,
    history: Annotated[
        bool | None,
        typer.Option("--history/--no-history", help="Keep a row of what finished.", show_default=False),
    ] = None,
    history_content: Annotated[
        bool | None,
        typer.Option(
            "--history-content/--no-history-content",
            help="With the content of each message.",
            show_default=False,
        ),
    ] = None,
    history_keep: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds for which history is kept, 3600 or more; 0: for ever.", show_default=False
        ),
    ] = None,
    notify: Annotated[
        bool | None,
        typer.Option("--notify/--no-notify", help="Wake consumers that sleep.", show_default=False),
    ] = None,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Change the queue's settings; those that are not given stay.

    Example: lonnymq queue set --max-concurrency 100 --history --history-keep 604800
    """
    numbers = (max_concurrency, max_attempts, lease, lease_max, content_max_bytes, dedupe_keep, history_keep)
    if all(given is None for given in (*numbers, paused, history, history_content, notify)):
        raise BadValue("nothing to set", "`lonnymq queue set --help` lists the settings")
    with opened(dsn, schema) as queue:
        settings = queue.set(
            content_max_bytes=content_max_bytes,
            lease=lease,
            lease_max=lease_max,
            max_attempts=max_attempts,
            max_concurrency=max_concurrency,
            paused=paused,
            dedupe_keep=dedupe_keep,
            history=history,
            history_content=history_content,
            history_keep=history_keep,
            notify=notify,
        )
    _print(settings, as_json=as_json)


def _print(settings: QueueSettings, *, as_json: bool) -> None:
    if as_json:
        print_records([settings])
    else:
        print_fields(_fields(settings))


def _fields(settings: QueueSettings) -> list[tuple[str, str]]:
    limit = settings.max_concurrency
    return [
        ("paused", _yes(is_so=settings.paused)),
        ("max concurrency", "no limit" if limit is None else count(limit)),
        ("max attempts", count(settings.max_attempts)),
        ("lease", _seconds(settings.lease_ms)),
        ("longest lease", _seconds(settings.lease_max_ms)),
        ("largest content", f"{count(settings.content_max_bytes)} bytes"),
        ("dedupe keys kept", _seconds(settings.dedupe_keep_ms)),
        ("history", _history(settings)),
        ("notify", _yes(is_so=settings.notify)),
    ]


def _history(settings: QueueSettings) -> str:
    if not settings.history:
        return "no"
    content = "with content" if settings.history_content else "without content"
    kept = f"for {_seconds(settings.history_keep_ms)}" if settings.history_keep_ms else "for ever"
    return f"kept {kept}, {content}"


def _seconds(milliseconds: int) -> str:
    """As it is set; the longer ones as they are said, too.

    >>> _seconds(1_500), _seconds(2_592_000_000)
    ('1.5 s', '2,592,000 s (30 d)')
    """
    exact = f"{milliseconds / SECOND:,.3f}".rstrip("0").rstrip(".") + " s"
    return f"{exact} ({span(milliseconds)})" if milliseconds >= 2 * MINUTE else exact


def _yes(*, is_so: bool) -> str:
    return "yes" if is_so else "no"
