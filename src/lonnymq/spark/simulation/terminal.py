"""A simulation in the terminal: one row for each of the largest tenants, and what it can be trusted for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lonnymq.simulation.outcome import (
    SimulationData,
    TenantOutcome,
    WaitNumbers,
    consumers_text,
    errors_text,
)
from lonnymq.spark.reports import formats

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20
NAME_WIDTH = 24


def show(simulation: SimulationData, console: Console | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = console or Console()
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("tenant", no_wrap=True, overflow="ellipsis")
    for head in ("messages", "recorded", "simulated", "error", *(one.name for one in simulation.scenarios)):
        table.add_column(Text(head), justify="right")
    for tenant in simulation.tenants[:SHOWN]:
        name = Text(formats.name(tenant.channel, NAME_WIDTH))
        table.add_row(name, *_cells(tenant, [one.name for one in simulation.scenarios]))
    screen.print(table)
    others = len(simulation.tenants) - SHOWN
    if others > 0:
        screen.print(f"and {others:,} others", highlight=False)
    if simulation.refusal:
        screen.print(simulation.refusal, highlight=False)
    screen.print(f"Waits are p50 / p95. {errors_text()}", highlight=False)
    screen.print(f"Served by {consumers_text(simulation.consumers)}", highlight=False)


def _cells(tenant: TenantOutcome, scenarios: list[str]) -> list[str]:
    answers = [waits(tenant.scenarios[name]) for name in scenarios if name in tenant.scenarios]
    if tenant.refusal:
        answers = ["no answer", *("" for _ in scenarios[1:])] if scenarios else []
    return [
        formats.count(tenant.messages),
        waits(tenant.recorded),
        waits(tenant.actual),
        error(tenant),
        *answers,
    ]


def waits(numbers: WaitNumbers) -> str:
    return f"{_wait(numbers.p50_ms)} / {_wait(numbers.p95_ms)}"


def _wait(milliseconds: float | None) -> str:
    return "never" if milliseconds is None else formats.duration(round(milliseconds))


def error(tenant: TenantOutcome) -> str:
    """The larger of both errors."""
    if tenant.error_p50 is None or tenant.error_p95 is None:
        return formats.NONE
    return f"{max(tenant.error_p50, tenant.error_p95):.0%}"
