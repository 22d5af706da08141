"""The results, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lonnymq.cli.bench.findings import milliseconds
from lonnymq.cli.bench.parameters import ROUNDS
from lonnymq.cli.bench.results import Fairness, Results
from lonnymq.cli.formatting import count, printable

if TYPE_CHECKING:
    from rich.table import Table

BAR = 14
BLOCK, ASCII = "█", "#"
SHOWN = ("synchronous_commit", "fsync", "shared_buffers", "max_connections")
UNLESS_USUAL = {"full_page_writes": "on", "synchronous_standby_names": ""}


def bar(value: float, top: float, block: str = BLOCK) -> str:
    """
    >>> bar(50, 100, "#"), bar(0.1, 100, "#"), bar(0, 100, "#")
    ('#######', '#', '')
    """
    return block * max(1 if value > 0 else 0, round(BAR * value / top)) if top > 0 else ""


def heading(found: Results) -> list[str]:
    around, terms = found.surroundings, found.terms
    settings = around.settings
    unusual = [name for name, usual in UNLESS_USUAL.items() if settings.get(name, usual) != usual]
    shown = [f"{name} {settings[name]}" for name in (*SHOWN, *unusual) if name in settings]
    processes = "process" if terms.clients == 1 else "processes"
    with_what = (
        f"{terms.clients} client {processes}, {count(terms.channels)} channels,"
        f" {count(terms.content_bytes)} bytes a message"
    )
    way = "through a pooler" if around.is_pooled else "directly"
    return [
        printable(f"PostgreSQL {settings['server_version']}, database {around.database}, {way}"),
        printable(", ".join(shown)),
        f"{with_what}; medians of {ROUNDS} rounds",
    ]


def times(found: Results, block: str) -> Table:
    lone = found.lone_message
    rows = {
        "round trip of an empty query": found.round_trip_ms,
        "commit of a message": found.commit_ms,
        "lone message, half within": lone.p50_ms,
        "lone message, 99 % within": lone.p99_ms,
    }
    table = _table("", "takes", "")
    top = max(rows.values())
    for name, value in rows.items():
        table.add_row(name, milliseconds(value), bar(value, top, block))
    return table


def rates(found: Results, block: str) -> Table:
    table = _table("", "messages/s", "", "client CPU", "WAL each")
    top = max(rate.per_second for rate in found.rates)
    for rate in found.rates:
        wal = rate.wal_bytes_per_message
        table.add_row(
            rate.name,
            f"{rate.per_second:,.0f}",
            bar(rate.per_second, top, block),
            f"{rate.client_cpu:.0%}",
            "" if wal is None else f"{wal:,.0f} B",
        )
    return table


def legend(found: Results) -> str:
    each = "Client CPU is of a core, for each client"
    if any(rate.wal_bytes_per_message is not None for rate in found.rates):
        return f"{each}; WAL is all that the server wrote meanwhile, a message."
    return f"{each}; what the server writes as WAL, this login may not see."


def fairness(found: Fairness) -> str:
    return (
        f"Beside a tenant with {count(found.noisy_backlog)} messages, those of quiet ones were served as"
        f" number {found.served_as_median:.0f}, at the latest as number {count(found.served_as_worst)};"
        f" in one line for all as number {found.in_one_line_median:,.0f}."
    )


def paragraphs(texts: Iterable[str]) -> Table:
    """Wrapped to the terminal; a line each in a pipe."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=0, show_header=False)
    for text in texts:
        table.add_row(Text(text))
    return table


def _table(*titles: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, title in enumerate(titles):
        is_number = bool(title)
        table.add_column(
            title,
            justify="right" if is_number else "left",
            no_wrap=True,
            min_width=BAR if place > 1 and not is_number else None,
        )
    return table
