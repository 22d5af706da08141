"""The report in a terminal: the largest tenants, the others in one line, and all together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lonnymq.spark.reports import text as texts
from lonnymq.spark.reports.fields import FIELDS
from lonnymq.spark.reports.model import Numbers, Totals

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20
NAME = 24
WIDE = 132
ROOM_FOR = {"messages", "dead", "wait p50", "p95", "share", "fair share"}  # in a terminal that is not wide


def show(report: Numbers, console: Console | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = console or Console()
    if report.began_at is None or report.ended_at is None:
        screen.print("Nothing has finished in this time.", highlight=False)
        return
    fields = [field for field in FIELDS if screen.width >= WIDE or field.head in ROOM_FOR]
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("tenant", no_wrap=True, overflow="ellipsis")
    for field in fields:
        table.add_column(field.head, justify="right", no_wrap=True)
    for tenant in report.tenants[:SHOWN]:
        table.add_row(Text(texts.name(tenant.channel, NAME)), *(field.of(tenant) for field in fields))
    others = report.tenants[SHOWN:]
    if others:
        table.add_row(f"{len(others):,} others", *(field.of_all(others) for field in fields), style="dim")
    table.add_section()
    totals = ("" if "share" in field.head else field.of(report.totals) for field in fields)
    table.add_row("all", *totals, style="bold")
    screen.print(table)
    screen.print(_summary(report.totals), highlight=False)
    screen.print(f"{texts.time(report.began_at)} to {texts.time(report.ended_at)}.", highlight=False)


def _summary(totals: Totals) -> str:
    if totals.jain is None:
        return "No two tenants had a backlog at the same time: there was nothing to share."
    return (
        f"Jain's index {texts.index(totals.jain)} (at best {texts.index(totals.jain_best)}; 1: all alike), "
        f"over {totals.contended:,} messages that were served while tenants competed."
    )
