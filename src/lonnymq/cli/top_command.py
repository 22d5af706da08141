"""top: watch the channels live."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.completion import channel_names
from lonnymq.cli.exit_on_signal import exit_on_signal
from lonnymq.cli.failure import UNREACHABLE, exit_code, sentence
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import DEFAULT_SCHEMA, Dsn, Json, Schema, print_json
from lonnymq.cli.printing import json_fields, note, print_table
from lonnymq.cli.top.sort import Sort

if TYPE_CHECKING:
    from lonnymq.monitor.poll import Poller
    from lonnymq.monitor.state import QueueSnapshot

Interval = Annotated[
    float, typer.Option(min=0.1, max=86_400, help="Seconds between two polls of the database.")
]
SortBy = Annotated[
    Sort,
    typer.Option(
        help="Sort by this, largest first. `rate`: messages served per second; `fair`: channels that get the"
        " smallest part of their entitlement first; `name`: in alphabetical order."
    ),
]
Prefix = Annotated[
    str,
    typer.Option(
        help="Show only channels whose name starts with this.",
        show_default=False,
        autocompletion=channel_names,
    ),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once", help="Poll twice, print one table, and exit. This is the default without a terminal."
    ),
]
MaxRows = Annotated[int, typer.Option(min=1, help="With --once or --json: print at most this many channels.")]


def register(app: typer.Typer) -> None:
    app.command()(top)


def top(
    *,
    interval: Interval = 1.0,
    sort: SortBy = Sort.WAITING,
    channel: Prefix = "",
    once: Once = False,
    limit: MaxRows = 50,
    dsn: Dsn = None,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Json = False,
) -> None:
    """Watch the channels live: backlog, messages served per second, and what each is entitled to.

    A channel is entitled to all that it asks for, or that its own limits allow, up to a fair share: channels
    that ask for more get equal shares, by weight, of what the others leave over. Press ? for the keys and q
    to quit.

    A poll takes about a tenth of a second, however many channels there are.

    Example: lonnymq top --sort fair --channel acme
    """
    with opened(dsn, schema) as queue:
        from lonnymq.monitor.poll import Poller

        poller = Poller(queue, interval)
        if as_json:
            _print_json(poller, interval, sort, channel, limit, once=once)
        elif once or not _is_on_terminal():
            _print_table(_poll_twice(poller, interval), sort, channel, limit)
        else:
            _show_live(poller, interval, sort, channel)


def _is_on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _show_live(poller: Poller, interval: float, sort: Sort, prefix: str) -> None:
    from rich.console import Console

    from lonnymq.cli.top.screen import PollThread, Screen
    from lonnymq.cli.top.view import ViewState

    Screen(PollThread(poller, interval), ViewState(sort, prefix), Console(highlight=False)).show()


def _poll_twice(poller: Poller, interval: float) -> QueueSnapshot:
    """A rate needs two polls."""
    poller.poll()
    time.sleep(interval)
    return poller.poll()


def _print_table(snapshot: QueueSnapshot, sort: Sort, prefix: str, limit: int) -> None:
    from rich.console import Console

    from lonnymq.cli.top.draw import PLAIN, UNICODE, fairness, plain_columns, summary
    from lonnymq.cli.top.view import sorted_channels

    glyphs = PLAIN if Console().options.ascii_only else UNICODE
    typer.echo(summary(snapshot, is_live=False))
    typer.echo(fairness(snapshot))
    rows = sorted_channels(snapshot, sort, prefix)
    print_table(rows[:limit], plain_columns(snapshot, glyphs), otherwise="There are no channels.")
    if len(rows) > limit:
        note(f"{limit} of {len(rows):,} channels; --limit shows more.")


def _print_json(poller: Poller, interval: float, sort: Sort, prefix: str, limit: int, *, once: bool) -> None:
    if once:
        print_json(_as_json(_poll_twice(poller, interval), sort, prefix, limit))
        return
    with exit_on_signal(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        is_unreachable = False
        while True:
            begin = time.monotonic()
            try:
                print_json(_as_json(poller.poll(), sort, prefix, limit))
                is_unreachable = False
            except Exception as error:
                if exit_code(error) != UNREACHABLE:
                    raise
                if not is_unreachable:
                    note(f"The database is unreachable, retrying: {sentence(error)}")
                is_unreachable = True
            time.sleep(max(0.0, begin + interval - time.monotonic()))


def _as_json(snapshot: QueueSnapshot, sort: Sort, prefix: str, limit: int) -> dict[str, object]:
    from lonnymq.cli.top.view import sorted_channels

    rows = sorted_channels(snapshot, sort, prefix)
    return {
        "at": snapshot.at,
        "queue": None if snapshot.queue is None else json_fields(snapshot.queue),
        "rate": snapshot.history.rate,
        "fair_rate": snapshot.fair,
        "competing": snapshot.competing,
        "jain": snapshot.jain,
        "misallocated": snapshot.misallocated,
        "noisy": sorted(snapshot.noisy),
        "channels_known": len(snapshot.channels),
        "channels_matching": len(rows),
        "is_complete": snapshot.is_complete,
        "channels": [
            json_fields(channel.stats)
            | {
                "rate": channel.rate,
                "share": snapshot.share(channel),
                "entitlement": snapshot.entitled_share(channel),
                "of_fair": snapshot.of_fair(channel),
                "standing": str(snapshot.standing(channel)),
                "is_noisy": channel.name in snapshot.noisy,
            }
            for channel in rows[:limit]
        ],
    }
