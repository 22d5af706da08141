"""top: the channels, live."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from lonnymq.cli.completion import channel_names
from lonnymq.cli.failure import UNREACHABLE, exit_code, sentence
from lonnymq.cli.open_queue import opened
from lonnymq.cli.options import Dsn, Json, Schema, print_json
from lonnymq.cli.printing import note, print_table, told
from lonnymq.cli.top.sort import Sort

if TYPE_CHECKING:
    from lonnymq.cli.top.poll import Looker
    from lonnymq.cli.top.state import Picture

SCHEMA = "lonnymq"

Interval = Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")]
SortBy = Annotated[Sort, typer.Option(help="Which have the most; fair: who gets least of its fair share.")]
Prefix = Annotated[
    str,
    typer.Option(
        help="Only channels whose names begin so.", show_default=False, autocompletion=channel_names
    ),
]
Once = Annotated[
    bool, typer.Option("--once", help="Look twice, print a table, and end; so it is without a terminal.")
]
Top = Annotated[int, typer.Option(min=1, help="How many to print, with --once or --json.")]


def register(app: typer.Typer) -> None:
    app.command()(top)


def top(
    *,
    interval: Interval = 1.0,
    sort: SortBy = Sort.WAITING,
    channel: Prefix = "",
    once: Once = False,
    limit: Top = 50,
    dsn: Dsn = None,
    schema: Schema = SCHEMA,
    as_json: Json = False,
) -> None:
    """Watch the channels: what each is served, against what were fair, what waits, and why.

    Fair is an equal part for each that always has something due, of what the others leave. On a terminal, ?
    lists the keys. However many channels there are, a look takes about a tenth of a second.

    Example: lonnymq top --sort fair --channel acme
    """
    with opened(dsn, schema) as queue:
        from lonnymq.cli.top.poll import Looker

        looker = Looker(queue, interval)
        if as_json:
            _print_looks(looker, interval, sort, channel, limit, once=once)
        elif once or not _is_on_terminal():
            _print_table(_second_look(looker, interval), sort, channel, limit)
        else:
            _watch(looker, interval, sort, channel)


def _is_on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _watch(looker: Looker, interval: float, sort: Sort, prefix: str) -> None:
    from rich.console import Console

    from lonnymq.cli.top.screen import Screen, Watch
    from lonnymq.cli.top.view import View

    Screen(Watch(looker, interval), View(sort, prefix), Console(highlight=False)).show()


def _second_look(looker: Looker, interval: float) -> Picture:
    """One look has no rates."""
    looker.look()
    time.sleep(interval)
    return looker.look()


def _print_table(picture: Picture, sort: Sort, prefix: str, limit: int) -> None:
    from rich.console import Console

    from lonnymq.cli.top.draw import PLAIN, UNICODE, fairness, plain_columns, summary
    from lonnymq.cli.top.view import listed

    glyphs = PLAIN if Console().options.ascii_only else UNICODE
    typer.echo(summary(picture, is_live=False))
    typer.echo(fairness(picture))
    rows = listed(picture, sort, prefix)
    print_table(rows[:limit], plain_columns(picture, glyphs), otherwise="There are no channels.")
    if len(rows) > limit:
        note(f"{limit} of {len(rows):,}; for more: --limit")


def _print_looks(looker: Looker, interval: float, sort: Sort, prefix: str, limit: int, *, once: bool) -> None:
    from lonnymq.cli.top.screen import ending_by_signal

    if once:
        print_json(_told(_second_look(looker, interval), sort, prefix, limit))
        return
    with ending_by_signal():
        is_away = False
        while True:
            begin = time.monotonic()
            try:
                print_json(_told(looker.look(), sort, prefix, limit))
                is_away = False
            except Exception as error:
                if exit_code(error) != UNREACHABLE:
                    raise
                if not is_away:
                    note(f"The database is away, trying again: {sentence(error)}")
                is_away = True
            time.sleep(max(0.0, begin + interval - time.monotonic()))


def _told(picture: Picture, sort: Sort, prefix: str, limit: int) -> dict[str, object]:
    from lonnymq.cli.top.view import listed

    rows = listed(picture, sort, prefix)
    return {
        "at": picture.at,
        "queue": None if picture.queue is None else told(picture.queue),
        "rate": picture.track.rate,
        "fair_rate": picture.fair,
        "hungry": picture.hungry,
        "channels_known": len(picture.channels),
        "channels_matching": len(rows),
        "is_whole": picture.is_whole,
        "channels": [
            told(seen.now)
            | {
                "rate": seen.rate,
                "share": picture.share(seen),
                "of_fair": picture.of_fair(seen),
                "standing": str(picture.standing(seen)),
            }
            for seen in rows[:limit]
        ],
    }
