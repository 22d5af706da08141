"""The picture, drawn for a terminal of some size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lonnymq.cli.formatting import count, printable, span
from lonnymq.cli.printing import Column
from lonnymq.cli.top.fairness import Standing
from lonnymq.cli.top.sort import Sort
from lonnymq.cli.top.sparkline import ASCII, BLOCKS, sparkline
from lonnymq.cli.top.state import Picture, Seen
from lonnymq.cli.top.view import View

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

HEAD_LINES, FOOT_LINES, TITLE_LINES = 3, 1, 1
CAP, QUEUE_CAP = 1_000, 10_000
NARROW_TREND, WIDE_TREND = 8, 30
BAR = 11
ROUNDED_FROM = 100
SEPARATOR = "  "
SORTING = "sort by: w waiting  d due  l leased  o oldest  r rate  f fair  n name  s next"
SCROLLING = "arrows, PgUp, PgDn, Home, End: scroll   / filter by name   p pause   q quit"
HINT = "? help   q quit   s sort   / filter   p pause"
TITLES = {Sort.RATE: "served/s", Sort.NAME: "channel"}
STYLES = {Standing.ABOVE: "yellow", Standing.FAIR: "", Standing.BELOW: "bold red"}


@dataclass(frozen=True)
class Glyphs:
    ramp: str
    above: str
    below: str
    full: str
    mark: str


UNICODE = Glyphs(BLOCKS, "▲", "▼", "█", "│")
PLAIN = Glyphs(ASCII, "+", "-", "#", "|")


@dataclass(frozen=True)
class Shown:
    """A column of the live table, for terminals of at least this width. The name takes what is left."""

    title: str
    width: int
    cell: Callable[[Seen], str]
    from_width: int = 0
    is_number: bool = True


def fitting(height: int) -> int:
    """How many channels a terminal of this height has room for."""
    return max(1, height - HEAD_LINES - TITLE_LINES - FOOT_LINES)


def draw(
    picture: Picture | None,
    rows: Sequence[Seen],
    view: View,
    *,
    width: int,
    height: int,
    trouble: str = "",
    glyphs: Glyphs = UNICODE,
) -> Group:
    """As many lines as the terminal has, none longer than it is wide."""
    from rich.console import Group

    if picture is None:
        return Group(_line(trouble or "Looking for the first time ..."))
    shown = rows[view.first : view.first + fitting(height)]
    return Group(
        *_head(picture, view, trouble, glyphs),
        _table(picture, shown, view, width, glyphs),
        *[_line("")] * (fitting(height) - len(shown)),  # the foot stays where it is
        _foot(rows, view, fitting(height)),
    )


def summary(picture: Picture, glyphs: Glyphs = UNICODE, *, is_live: bool = True) -> str:
    """The queue as a whole, on one line; what its bounds leave unknown is left out."""
    queue = picture.queue
    rate = "" if picture.track.rate is None else f"served/s {_rate(picture.track.rate)}"
    if is_live and rate:
        rate += f" {sparkline(picture.track.trend(picture.look), glyphs.ramp).strip()}"
    if queue is None:
        return rate
    parts = [
        ("waiting", queue.waiting, None),
        ("due", queue.due, None),
        ("leased", queue.leased, QUEUE_CAP),
        ("dead", queue.dead, QUEUE_CAP),
    ]
    said = [f"{name} {count(number, cap)}" for name, number, cap in parts if number is not None]
    if queue.oldest_due_ms is not None:
        said.append(f"oldest {span(queue.oldest_due_ms)}")
    if queue.max_concurrency is not None:
        said.append(f"slots {count(queue.running or 0)}/{count(queue.max_concurrency)}")
    if queue.paused:
        said.append("PAUSED")
    return SEPARATOR.join([*said, rate] if rate else said)


def fairness(picture: Picture) -> str:
    """Who competes, and for how much."""
    number = len(picture.channels)
    known = "1 channel" if number == 1 else f"{count(number)} channels"
    if not picture.is_whole:
        return f"{known} so far"
    every = f", all read every {picture.sweep} looks" if picture.sweep > 1 else ""
    if picture.fair is None:
        return f"{known}{every}"
    is_weighted = any(seen.now.weight != 1 for seen in picture.channels.values())
    return (
        f"{known}{every}, {count(picture.hungry)} always with something due: "
        f"fair is {_rate(picture.fair)}/s ({picture.fair / picture.total:.1%})"
        f" {'for a weight of 1' if is_weighted else 'each'}"
    )


def plain_columns(picture: Picture, glyphs: Glyphs = UNICODE) -> list[Column[Seen]]:
    """For a table that is printed once."""
    return [
        Column("channel", lambda seen: seen.name, gives_way=True),
        *(
            Column(shown.title, shown.cell, is_number=shown.is_number)
            for shown in _columns(picture, WIDE_TREND, glyphs)
            if shown.title not in {"trend", ""}
        ),
    ]


def _columns(picture: Picture, trend: int, glyphs: Glyphs) -> list[Shown]:
    def ratio_of(seen: Seen) -> float | None:
        """It says nothing of who neither asked for anything nor got it."""
        return picture.of_fair(seen) if seen.rate or seen.is_hungry else None

    def of_fair(seen: Seen) -> str:
        ratio = ratio_of(seen)
        signs = {Standing.ABOVE: glyphs.above, Standing.BELOW: glyphs.below, Standing.FAIR: " "}
        return "" if ratio is None else f"{_rate(ratio)}x{signs[picture.standing(seen)]}"

    return [
        Shown("served/s", 8, lambda seen: _rate(seen.rate)),
        Shown(
            "trend",
            trend,
            lambda seen: sparkline(seen.track.trend(picture.look)[-trend:], glyphs.ramp),
            from_width=70,
            is_number=False,
        ),
        Shown("share", 6, lambda seen: _percent(picture.share(seen)), from_width=100),
        Shown("fair", 7, of_fair),
        Shown("", BAR, lambda seen: _bar(ratio_of(seen), glyphs), from_width=120, is_number=False),
        Shown("waiting", 7, _waiting, from_width=60),
        Shown("due", 6, lambda seen: count(seen.now.due)),
        Shown("leased", 6, lambda seen: count(seen.now.leased)),
        Shown("dead", 6, lambda seen: count(seen.now.dead, CAP), from_width=110),
        Shown("oldest", 7, _oldest, from_width=50),
        Shown("state", 11, lambda seen: seen.state, from_width=65, is_number=False),
    ]


def _table(picture: Picture, rows: Sequence[Seen], view: View, width: int, glyphs: Glyphs) -> Table:
    from rich.table import Table
    from rich.text import Text

    wide = width >= 140  # noqa: PLR2004 - from there on, all looks that are kept have room
    columns = [
        column
        for column in _columns(picture, WIDE_TREND if wide else NARROW_TREND, glyphs)
        if width >= column.from_width
    ]
    cut = "ellipsis" if glyphs is UNICODE else "crop"
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=True, header_style="reverse")
    sorted_by = TITLES.get(view.sort, str(view.sort))
    table.add_column(_title("channel", sorted_by), ratio=1, no_wrap=True)
    for column in columns:
        table.add_column(
            _title(column.title, sorted_by),
            width=column.width,
            justify="right" if column.is_number else "left",
            no_wrap=True,
        )
    for seen in rows:
        cells = (printable(seen.name), *(column.cell(seen) for column in columns))
        table.add_row(
            *(Text(cell, no_wrap=True, overflow=cut) for cell in cells),  # type: ignore[arg-type]
            style=STYLES[picture.standing(seen)] or ("" if seen.state == "ready" else "dim"),
        )
    return table


def _head(picture: Picture, view: View, trouble: str, glyphs: Glyphs) -> list[Text]:
    paused = "  DISPLAY PAUSED: p goes on" if view.is_paused else ""
    title = SORTING if view.is_helping else f"lonnymq top  sorted by {view.sort}{paused}"
    return [
        _line(title, "bold"),
        _line(summary(picture, glyphs)),
        _line(trouble, "bold red") if trouble else _line(fairness(picture)),
    ]


def _foot(rows: Sequence[Seen], view: View, room: int) -> Text:
    if view.is_typing:
        return _line(f"names that begin with: {printable(view.prefix)}_   (Enter: done, Esc: all)", "bold")
    if view.is_helping:
        return _line(SCROLLING, "bold")
    last = min(len(rows), view.first + room)
    filtered = f' that begin with "{printable(view.prefix)}"' if view.prefix else ""
    place = f"{count(view.first + 1)}-{count(last)} of {count(len(rows))}" if rows else "no channels"
    return _line(f"{place}{filtered}   {HINT}", "dim")


def _title(title: str, sorted_by: str) -> Text:
    return _line(title, "bold underline" if title == sorted_by else "")


def _line(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="crop")


def _waiting(seen: Seen) -> str:
    return f"{count(seen.now.waiting)}{'+' if seen.now.scheduled >= CAP else ''}"


def _oldest(seen: Seen) -> str:
    return "" if seen.now.oldest_due_ms is None else span(seen.now.oldest_due_ms)


def _rate(rate: float | None) -> str:
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= ROUNDED_FROM or not rate else f"{rate:.1f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _bar(ratio: float | None, glyphs: Glyphs) -> str:
    """Up to twice the fair share; what is fair is marked, in the middle."""
    if ratio is None:
        return ""
    middle = BAR // 2
    filled = min(BAR, round(ratio * middle))
    cells = list(glyphs.full * filled + " " * (BAR - filled))
    cells[middle] = glyphs.mark if filled <= middle else cells[middle]
    return "".join(cells)
