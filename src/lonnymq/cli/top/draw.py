"""Draws a snapshot for a terminal of a given size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lonnymq.cli.printing import Column
from lonnymq.cli.top.sort import Sort
from lonnymq.cli.top.sparkline import ASCII, BLOCKS, sparkline
from lonnymq.cli.top.view import ViewState
from lonnymq.formatting import count, duration, printable
from lonnymq.monitor.fairness import Standing
from lonnymq.monitor.state import ChannelState, QueueSnapshot

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

HEADER_LINES, FOOTER_LINES, TITLE_LINES = 3, 1, 1
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
class LiveColumn:
    """A column of the live table, shown from this terminal width on. The name column takes the remaining
    width.
    """

    title: str
    width: int
    cell: Callable[[ChannelState], str]
    from_width: int = 0
    is_number: bool = True


def rows_that_fit(height: int) -> int:
    """How many channels a terminal of this height can show."""
    return max(1, height - HEADER_LINES - TITLE_LINES - FOOTER_LINES)


def draw(
    snapshot: QueueSnapshot | None,
    rows: Sequence[ChannelState],
    view: ViewState,
    *,
    width: int,
    height: int,
    trouble: str = "",
    glyphs: Glyphs = UNICODE,
) -> Group:
    """Exactly as many lines as the terminal has, none wider than it."""
    from rich.console import Group

    if snapshot is None:
        return Group(_line(trouble or "Reading the queue ..."))
    shown = rows[view.first : view.first + rows_that_fit(height)]
    return Group(
        *_header(snapshot, view, trouble, glyphs),
        _table(snapshot, shown, view, width, glyphs),
        *[_line("")] * (rows_that_fit(height) - len(shown)),  # keeps the footer at the bottom
        _footer(rows, view, rows_that_fit(height)),
    )


def summary(snapshot: QueueSnapshot, glyphs: Glyphs = UNICODE, *, is_live: bool = True) -> str:
    """The whole queue on one line, without the numbers that are not known."""
    queue = snapshot.queue
    rate = "" if snapshot.history.rate is None else f"served/s {_rate(snapshot.history.rate)}"
    if is_live and rate:
        rate += f" {sparkline(snapshot.history.trend(snapshot.poll), glyphs.ramp).strip()}"
    if queue is None:
        return rate
    parts = [
        ("waiting", queue.waiting, None),
        ("due", queue.due, None),
        ("leased", queue.leased, QUEUE_CAP),
        ("dead", queue.dead, QUEUE_CAP),
    ]
    shown = [f"{name} {count(number, cap)}" for name, number, cap in parts if number is not None]
    if queue.oldest_due_ms is not None:
        shown.append(f"oldest {duration(queue.oldest_due_ms)}")
    if queue.max_concurrency is not None:
        shown.append(f"slots {count(queue.running or 0)}/{count(queue.max_concurrency)}")
    if queue.paused:
        shown.append("PAUSED")
    return SEPARATOR.join([*shown, rate] if rate else shown)


def fairness(snapshot: QueueSnapshot) -> str:
    """How many channels compete, and what each of them is entitled to."""
    number = len(snapshot.channels)
    known = "1 channel" if number == 1 else f"{count(number)} channels"
    if not snapshot.is_complete:
        return f"{known} so far"
    every = f", all read within {snapshot.polls_per_pass} polls" if snapshot.polls_per_pass > 1 else ""
    if snapshot.fair is None:
        return f"{known}{every}"
    is_weighted = any(channel.stats.weight != 1 for channel in snapshot.channels.values())
    return (
        f"{known}{every}, {count(snapshot.competing)} compete: "
        f"a fair share is {_rate(snapshot.fair)}/s ({snapshot.fair / snapshot.total:.1%})"
        f" {'for a weight of 1' if is_weighted else 'each'}"
    )


def plain_columns(snapshot: QueueSnapshot, glyphs: Glyphs = UNICODE) -> list[Column[ChannelState]]:
    """Columns of the table that --once prints."""
    return [
        Column("channel", lambda channel: channel.name, gives_way=True),
        *(
            Column(shown.title, shown.cell, is_number=shown.is_number)
            for shown in _columns(snapshot, WIDE_TREND, glyphs)
            if shown.title not in {"trend", ""}
        ),
    ]


def _columns(snapshot: QueueSnapshot, trend: int, glyphs: Glyphs) -> list[LiveColumn]:
    def ratio_of(channel: ChannelState) -> float | None:
        """None for a channel that had nothing due and got nothing."""
        return snapshot.of_fair(channel) if channel.rate or channel.is_backlogged else None

    def entitled(channel: ChannelState) -> float | None:
        return snapshot.entitled_share(channel) if channel.rate or channel.is_backlogged else None

    def of_fair(channel: ChannelState) -> str:
        ratio = ratio_of(channel)
        signs = {Standing.ABOVE: glyphs.above, Standing.BELOW: glyphs.below, Standing.FAIR: " "}
        return "" if ratio is None else f"{_rate(ratio)}x{signs[snapshot.standing(channel)]}"

    return [
        LiveColumn("served/s", 8, lambda channel: _rate(channel.rate)),
        LiveColumn(
            "trend",
            trend,
            lambda channel: sparkline(channel.history.trend(snapshot.poll)[-trend:], glyphs.ramp),
            from_width=70,
            is_number=False,
        ),
        LiveColumn("share", 6, lambda channel: _percent(snapshot.share(channel)), from_width=100),
        LiveColumn("entitled", 8, lambda channel: _percent(entitled(channel)), from_width=130),
        LiveColumn("fair", 7, of_fair),
        LiveColumn("", BAR, lambda channel: _bar(ratio_of(channel), glyphs), from_width=120, is_number=False),
        LiveColumn("waiting", 7, _waiting, from_width=60),
        LiveColumn("due", 6, lambda channel: count(channel.stats.due)),
        LiveColumn("leased", 6, lambda channel: count(channel.stats.leased)),
        LiveColumn("dead", 6, lambda channel: count(channel.stats.dead, CAP), from_width=110),
        LiveColumn("oldest", 7, _oldest, from_width=50),
        LiveColumn("state", 11, lambda channel: _state(snapshot, channel), from_width=65, is_number=False),
    ]


def _state(snapshot: QueueSnapshot, channel: ChannelState) -> str:
    """Its state; `noisy` if it is ready and noisy."""
    return "noisy" if channel.state == "ready" and channel.name in snapshot.noisy else channel.state


def _table(
    snapshot: QueueSnapshot, rows: Sequence[ChannelState], view: ViewState, width: int, glyphs: Glyphs
) -> Table:
    from rich.table import Table
    from rich.text import Text

    wide = width >= 140  # noqa: PLR2004 - wide enough for the whole trend
    columns = [
        column
        for column in _columns(snapshot, WIDE_TREND if wide else NARROW_TREND, glyphs)
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
    for channel in rows:
        cells = (printable(channel.name), *(column.cell(channel) for column in columns))
        table.add_row(
            *(Text(cell, no_wrap=True, overflow=cut) for cell in cells),  # type: ignore[arg-type]
            style=STYLES[snapshot.standing(channel)] or ("" if channel.state == "ready" else "dim"),
        )
    return table


def _header(snapshot: QueueSnapshot, view: ViewState, trouble: str, glyphs: Glyphs) -> list[Text]:
    paused = "  DISPLAY PAUSED: p resumes" if view.is_paused else ""
    title = SORTING if view.shows_help else f"lonnymq top  sorted by {view.sort}{paused}"
    return [
        _line(title, "bold"),
        _line(summary(snapshot, glyphs)),
        _line(trouble, "bold red") if trouble else _line(fairness(snapshot)),
    ]


def _footer(rows: Sequence[ChannelState], view: ViewState, room: int) -> Text:
    if view.is_typing:
        return _line(f"names starting with: {printable(view.prefix)}_   (Enter: done, Esc: all)", "bold")
    if view.shows_help:
        return _line(SCROLLING, "bold")
    last = min(len(rows), view.first + room)
    filtered = f' starting with "{printable(view.prefix)}"' if view.prefix else ""
    place = f"{count(view.first + 1)}-{count(last)} of {count(len(rows))}" if rows else "no channels"
    return _line(f"{place}{filtered}   {HINT}", "dim")


def _title(title: str, sorted_by: str) -> Text:
    return _line(title, "bold underline" if title == sorted_by else "")


def _line(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="crop")


def _waiting(channel: ChannelState) -> str:
    return f"{count(channel.stats.waiting)}{'+' if channel.stats.scheduled >= CAP else ''}"


def _oldest(channel: ChannelState) -> str:
    return "" if channel.stats.oldest_due_ms is None else duration(channel.stats.oldest_due_ms)


def _rate(rate: float | None) -> str:
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= ROUNDED_FROM or not rate else f"{rate:.1f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _bar(ratio: float | None, glyphs: Glyphs) -> str:
    """Scaled to twice the fair share, with a mark in the middle at exactly the fair share."""
    if ratio is None:
        return ""
    middle = BAR // 2
    filled = min(BAR, round(ratio * middle))
    cells = list(glyphs.full * filled + " " * (BAR - filled))
    cells[middle] = glyphs.mark if filled <= middle else cells[middle]
    return "".join(cells)
