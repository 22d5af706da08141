"""The results as tables and sentences for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lonnymq.cli.bench.findings import milliseconds
from lonnymq.cli.bench.parameters import ROUNDS
from lonnymq.cli.bench.results import FairnessResult, Results
from lonnymq.formatting import count, printable

if TYPE_CHECKING:
    from rich.table import Table

BAR = 14
BLOCK, ASCII = "█", "#"
SHOWN = ("synchronous_commit", "fsync", "shared_buffers", "max_connections")
SHOWN_IF_CHANGED = {"full_page_writes": "on", "synchronous_standby_names": ""}


def bar(value: float, top: float, block: str = BLOCK) -> str:
    """
    >>> bar(50, 100, "#"), bar(0.1, 100, "#"), bar(0, 100, "#")
    ('#######', '#', '')
    """
    return block * max(1 if value > 0 else 0, round(BAR * value / top)) if top > 0 else ""


def heading(found: Results) -> list[str]:
    server, parameters = found.server, found.parameters
    settings = server.settings
    unusual = [name for name, usual in SHOWN_IF_CHANGED.items() if settings.get(name, usual) != usual]
    shown = [f"{name} {settings[name]}" for name in (*SHOWN, *unusual) if name in settings]
    processes = "process" if parameters.clients == 1 else "processes"
    with_what = (
        f"{parameters.clients} client {processes}, {count(parameters.channels)} channels,"
        f" {count(parameters.payload_bytes)} bytes per message"
    )
    connection = "through a pooler" if server.is_pooled else "direct connection"
    return [
        printable(f"PostgreSQL {settings['server_version']}, database {server.database}, {connection}"),
        printable(", ".join(shown)),
        f"{with_what}; medians of {ROUNDS} rounds",
    ]


def times(found: Results, block: str) -> Table:
    latency = found.latency
    rows = {
        "round trip of an empty query": found.round_trip_ms,
        "commit of one message": found.commit_ms,
        "latency of a message, median": latency.p50_ms,
        "latency of a message, 99 %": latency.p99_ms,
    }
    table = _table("", "time", "")
    top = max(rows.values())
    for name, value in rows.items():
        table.add_row(name, milliseconds(value), bar(value, top, block))
    return table


def rates(found: Results, block: str) -> Table:
    table = _table("", "messages/s", "", "client CPU", "WAL/message")
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
    cpu = "Consume: dequeue and complete. Client CPU: how busy each client kept one core."
    if any(rate.wal_bytes_per_message is not None for rate in found.rates):
        return f"{cpu} WAL: all that the server wrote meanwhile, divided by the messages."
    return f"{cpu} This login may not see how much WAL the server writes."


def fairness(found: FairnessResult) -> str:
    return (
        f"While a noisy tenant had {count(found.noisy_backlog)} messages waiting, a new message of a quiet"
        f" tenant was served as number {found.position_median:.0f} (median), at worst as number"
        f" {count(found.position_worst)}. In a FIFO queue it would have been number"
        f" {found.fifo_position_median:,.0f}."
    )


def paragraphs(texts: Iterable[str]) -> Table:
    """Wrapped to the width of a terminal; in a pipe, one line each."""
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
