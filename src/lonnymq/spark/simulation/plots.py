"""The picture of a simulation: the waits of each tenant, before and after."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import FuncFormatter

from lonnymq.simulation.outcome import TenantOutcome, WaitNumbers
from lonnymq.spark.reports import formats
from lonnymq.spark.reports.plots import BAR_IN, NAME, PALETTE, TICKS_S, _figure, _seconds, _svg

BEFORE, AFTER = PALETTE[7], PALETTE[0]


def waits(tenants: Sequence[TenantOutcome], scenario: str) -> str:
    """The waits of each tenant as two lines from p50 to p95: with the actual settings, and with those of the
    scenario.
    """
    with _figure(f"simulated {scenario}", 2 * BAR_IN * len(tenants) + 0.6) as (figure, axes):
        shown = []
        for place, tenant in enumerate(tenants):
            for numbers, colour, shift in (
                (tenant.actual, BEFORE, -0.16),
                (tenant.scenarios[scenario], AFTER, 0.16),
            ):
                if numbers.p95_ms is not None:
                    p50, p95 = _ends(numbers)
                    shown += [p50, p95]
                    axes.plot([p50, p95], [place + shift] * 2, color=colour, linewidth=2.2, alpha=0.6)
                    axes.plot(p95, place + shift, "o", color=colour, markersize=6)
        axes.set_yticks(range(len(tenants)), [formats.name(tenant.channel, NAME) for tenant in tenants])
        axes.set_ylim(len(tenants) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        least = max(tick for tick in TICKS_S if tick <= min(shown, default=1))
        most = min((tick for tick in TICKS_S if tick > max(shown, default=1)), default=max(shown, default=1))
        axes.set_xscale("log")
        axes.set_xlim(least * 0.9, most * 1.05)
        axes.set_xticks([tick for tick in TICKS_S if least <= tick <= most])
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: formats.duration(round(x * 1000, 6))))
        axes.grid(axis="x")
        return _svg(figure)


def _ends(numbers: WaitNumbers) -> tuple[float, float]:
    return _seconds(numbers.p50_ms), _seconds(numbers.p95_ms)
