"""The report in a terminal: one row for each of the largest tenants, one for all others, and the totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lonnymq.spark.reports import formats
from lonnymq.spark.reports.explanations import LIMITS_UNKNOWN
from lonnymq.spark.reports.fields import FIELDS, OF_TENANTS
from lonnymq.spark.reports.model import ReportData, Totals

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20
NAME_WIDTH = 24
WIDE = 132
IN_NARROW_TERMINALS = {"messages", "dead", "p95", "share", "entitlement", "held back"}


def show(report: ReportData, console: Console | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = console or Console()
    if report.began_at is None or report.ended_at is None:
        screen.print("No messages finished in this time.", highlight=False)
        return
    fields = [field for field in FIELDS if screen.width >= WIDE or field.head in IN_NARROW_TERMINALS]
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("tenant", no_wrap=True, overflow="ellipsis")
    for field in fields:
        table.add_column(field.head, justify="right", no_wrap=True)
    for tenant in report.tenants[:SHOWN]:
        table.add_row(Text(formats.name(tenant.channel, NAME_WIDTH)), *(field.of(tenant) for field in fields))
    others = report.tenants[SHOWN:]
    if others:
        table.add_row(f"{len(others):,} others", *(field.of_all(others) for field in fields), style="dim")
    table.add_section()
    totals = ("" if field.head in OF_TENANTS else field.of(report.totals) for field in fields)
    table.add_row("all", *totals, style="bold")
    screen.print(table)
    screen.print(_summary(report.totals), highlight=False)
    if not report.knows_limits:
        screen.print(LIMITS_UNKNOWN, highlight=False)
    screen.print(f"{formats.time(report.began_at)} to {formats.time(report.ended_at)}.", highlight=False)


def _summary(totals: Totals) -> str:
    wrong = formats.percent(totals.misallocated)
    misallocated = f"{wrong} of what was served should have gone to other tenants."
    if totals.jain is None:
        return f"No two tenants competed, so there is no index of fairness. {misallocated}"
    return (
        f"Jain's index of fairness: {formats.index(totals.jain)}, where 1 is fair, over {totals.competed:,}"
        f" tenants that competed. {misallocated}"
    )
