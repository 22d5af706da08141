"""queue: show and change the settings of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.display import limit_text
from lonnymq.cli.failure import BadValue
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema
from lonnymq.cli.printing import print_record
from lonnymq.formatting import MINUTE, SECOND, count, duration

if TYPE_CHECKING:
    from lonnymq.commands import QueueSettings

app = typer.Typer(help="Show and change the settings of the whole queue.", no_args_is_help=True)


@app.command()
def show(*, dsn: Dsn = None, schema: Schema = DEFAULT_SCHEMA, as_json: Json = False) -> None:
    """Show the queue's settings.

    Example: lonnymq queue show
    """
    with opened(dsn, schema) as queue:
        settings = queue.settings()
    print_record(settings, _fields, as_json=as_json)


@app.command("set")
def set_settings(
    *,
    max_concurrency: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Most messages leased at the same time, over all channels. 0: no limit.",
            show_default=False,
        ),
    ] = None,
    paused: Annotated[
        bool | None,
        typer.Option(
            "--paused/--not-paused",
            help="Stop or resume serving messages of all channels.",
            show_default=False,
        ),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            min=1, help="Attempts per message, unless the message sets its own.", show_default=False
        ),
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(min=0.001, help="Default length of a lease, in seconds.", show_default=False),
    ] = None,
    lease_max: Annotated[
        float | None, typer.Option(min=0.001, help="Longest allowed lease, in seconds.", show_default=False)
    ] = None,
    content_max_bytes: Annotated[
        int | None, typer.Option(min=1, help="Largest allowed payload, in bytes.", show_default=False)
    ] = None,
    history: Annotated[
        bool | None,
        typer.Option(
            "--history/--no-history", help="Keep a history: one row per finished message.", show_default=False
        ),
    ] = None,
    history_content: Annotated[
        bool | None,
        typer.Option(
            "--history-content/--no-history-content",
            help="Keep the payloads in the history, too.",
            show_default=False,
        ),
    ] = None,
    history_keep: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds for which to keep the history, at least 3600. 0: forever.",
            show_default=False,
        ),
    ] = None,
    batch_keep: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds for which to keep finished batches, at least 3600. 0: forever.",
            show_default=False,
        ),
    ] = None,
    audit_keep: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds for which to keep what people did, at least 3600. 0: forever.",
            show_default=False,
        ),
    ] = None,
    notify: Annotated[
        bool | None,
        typer.Option(
            "--notify/--no-notify",
            help="Notify sleeping consumers of new messages. Without it they poll once per second.",
            show_default=False,
        ),
    ] = None,
    channel_max_concurrency: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Most messages of one channel leased at the same time, for channels that do not set their"
            " own limit. 0: no limit.",
            show_default=False,
        ),
    ] = None,
    channel_rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="Most messages of one channel started per time, such as 20/s or 100/min, for channels that"
            " do not set their own rate. 0: no limit.",
            show_default=False,
        ),
    ] = None,
    channel_burst: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most messages that the rate lets start at once after a pause, for channels that do not set"
            " their own burst.",
            show_default=False,
        ),
    ] = None,
    channel_max_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Most messages that one channel may have, for channels that do not set their own limit."
            " 0: no limit.",
            show_default=False,
        ),
    ] = None,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Change the settings that are given. The others stay as they are.

    Example: lonnymq queue set --max-concurrency 100 --history --history-keep 604800

    Example: lonnymq queue set --channel-max-concurrency 4 --channel-rate 20/s --channel-burst 50
    """
    channels = (channel_max_concurrency, channel_rate, channel_burst, channel_max_size)
    numbers = (max_concurrency, max_attempts, lease, lease_max, content_max_bytes)
    kept = (history_keep, batch_keep, audit_keep)
    if all(given is None for given in (*numbers, *kept, *channels, paused, history, history_content, notify)):
        raise BadValue("no setting given", "`lonnymq queue set --help` lists them")
    with opened(dsn, schema) as queue:
        settings = queue.set(
            content_max_bytes=content_max_bytes,
            lease=lease,
            lease_max=lease_max,
            max_attempts=max_attempts,
            max_concurrency=max_concurrency,
            paused=paused,
            history=history,
            history_content=history_content,
            history_keep=history_keep,
            batch_keep=batch_keep,
            audit_keep=audit_keep,
            notify=notify,
            channel_max_concurrency=channel_max_concurrency,
            channel_rate=channel_rate,
            channel_burst=channel_burst,
            channel_max_size=channel_max_size,
        )
    print_record(settings, _fields, as_json=as_json)


def _fields(settings: QueueSettings) -> list[tuple[str, str]]:
    return [
        ("paused", _yes_or_no(value=settings.paused)),
        ("max concurrency", limit_text(settings.max_concurrency)),
        ("max attempts", count(settings.max_attempts)),
        ("lease", _seconds(settings.lease_ms)),
        ("longest lease", _seconds(settings.lease_max_ms)),
        ("largest payload", f"{count(settings.content_max_bytes)} bytes"),
        ("history", _history(settings)),
        ("batches kept", _seconds(settings.batch_keep_ms) if settings.batch_keep_ms else "forever"),
        ("audit kept", _seconds(settings.audit_keep_ms) if settings.audit_keep_ms else "forever"),
        ("notify", _yes_or_no(value=settings.notify)),
        ("channel max concurrency", limit_text(settings.channel_max_concurrency)),
        ("channel rate", limit_text(settings.channel_rate)),
        ("channel burst", limit_text(settings.channel_burst)),
        ("channel max size", limit_text(settings.channel_max_size)),
    ]


def _history(settings: QueueSettings) -> str:
    if not settings.history:
        return "no"
    payloads = "with payloads" if settings.history_content else "without payloads"
    kept = f"for {_seconds(settings.history_keep_ms)}" if settings.history_keep_ms else "forever"
    return f"kept {kept}, {payloads}"


def _seconds(milliseconds: int) -> str:
    """In seconds, as it is set; a long time also in larger units.

    >>> _seconds(1_500), _seconds(2_592_000_000)
    ('1.5 s', '2,592,000 s (30 d)')
    """
    exact = f"{milliseconds / SECOND:,.3f}".rstrip("0").rstrip(".") + " s"
    return f"{exact} ({duration(milliseconds)})" if milliseconds >= 2 * MINUTE else exact


def _yes_or_no(*, value: bool) -> str:
    return "yes" if value else "no"
