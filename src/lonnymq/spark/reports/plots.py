"""The plots of the report, as SVG that takes its font and text colour from the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, DateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lonnymq.spark.reports import formats
from lonnymq.spark.reports.model import Flow, ShareSeries, TenantNumbers

INK = "#404142"  # replaced by the page's own text colour
PALETTE = ("#2a6f97", "#e07a5f", "#81b29a", "#e9b44c", "#7a5c9e", "#4fa3c7", "#b5656b", "#8d99ae")
SHARE, FAIR = PALETTE[0], PALETTE[1]
WIDTH_IN = 5.0
SIZES = {"wide": (2.9, 11.6), "narrow": (3.2, WIDTH_IN)}
BAR_IN = 0.27
PANEL_IN = 0.85
TICKS_S = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
NAME = 18
STYLE: Any = {
    "timezone": "UTC",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9.5,
    "font.family": "sans-serif",
    "font.sans-serif": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
}


def waits(tenants: Sequence[TenantNumbers]) -> str:
    """The wait p50, p95 and p99 of each tenant, on a logarithmic scale."""
    with _figure("waits", _height(tenants)) as (figure, axes):
        for place, tenant in enumerate(tenants):
            p50, p95, p99 = (
                _seconds(w) for w in (tenant.wait_p50_ms, tenant.wait_p95_ms, tenant.wait_p99_ms)
            )
            axes.plot([p50, p99], [place, place], color=PALETTE[7], linewidth=1.4, alpha=0.7, zorder=1)
            axes.plot(p99, place, "|", color=PALETTE[7], markersize=9, markeredgewidth=2)
            axes.plot(p95, place, "o", color=PALETTE[1], markersize=5)
            axes.plot(p50, place, "o", color=PALETTE[0], markersize=6)
        _names(axes, tenants)
        shown = [_seconds(wait) for tenant in tenants for wait in (tenant.wait_p50_ms, tenant.wait_p99_ms)]
        least = max(tick for tick in TICKS_S if tick <= min(shown))
        most = min((tick for tick in TICKS_S if tick > max(shown)), default=max(shown))
        axes.set_xscale("log")
        axes.set_xlim(least * 0.9, most * 1.05)
        axes.set_xticks([tick for tick in TICKS_S if least <= tick <= most])
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: formats.duration(round(x * 1000, 6))))
        axes.grid(axis="x")
        return _svg(figure)


def shares(tenants: Sequence[TenantNumbers]) -> str:
    """The share of each tenant as a bar, and its entitlement as a line across the bar."""
    with _figure("shares", _height(tenants)) as (figure, axes):
        places = range(len(tenants))
        axes.barh(places, [tenant.share or 0 for tenant in tenants], color=SHARE, height=0.55)
        axes.plot(
            [tenant.entitlement or 0 for tenant in tenants],
            places,
            "|",
            color=FAIR,
            markersize=13,
            markeredgewidth=2.5,
        )
        _names(axes, tenants)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: formats.percent(round(x, 9))))
        axes.grid(axis="x")
        return _svg(figure)


def flows(series: Sequence[Flow], began_at: datetime, bucket_ms: int, size: str) -> str:
    """Completed messages per second over time, stacked by tenant."""
    with _figure(f"flows {size}", *SIZES[size]) as (figure, axes):
        buckets = len(series[0].completed)
        times = _edges(began_at, bucket_ms, buckets)
        below = [0.0] * buckets
        for place, flow in enumerate(series):
            above = [low + 1000 * n / bucket_ms for low, n in zip(below, flow.completed, strict=True)]
            axes.stairs(
                above,
                times,
                baseline=below,
                fill=True,
                color=colour(place, flow),
                linewidth=0,
            )
            below = above
        axes.set_xlim(times[0], times[-1])
        axes.set_ylim(bottom=0)
        _clock_axis(axes, bucket_ms * buckets)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: formats.rate(y)))
        axes.set_ylabel("completed per second")
        axes.grid(axis="y")
        return _svg(figure)


def shares_over_time(series: Sequence[ShareSeries], began_at: datetime, bucket_ms: int, size: str) -> str:
    """One panel per tenant: its share as an area, its entitlement as a line."""
    width = SIZES[size][1]
    height = PANEL_IN * len(series) + 0.5
    with _figures(f"shares over time {size}", height, width, len(series)) as (figure, panels):
        times = _edges(began_at, bucket_ms, len(series[0].share))
        for axes, one in zip(panels, series, strict=True):
            share = [part or 0 for part in one.share]
            axes.stairs(share, times, fill=True, color=SHARE, linewidth=0, alpha=0.75)
            axes.stairs(
                [part or 0 for part in one.entitlement], times, color=FAIR, linewidth=1.3, baseline=None
            )
            axes.set_xlim(times[0], times[-1])
            axes.set_ylim(0, 1.05 * max(0.001, *share, *(part or 0 for part in one.entitlement)))
            axes.yaxis.set_major_locator(MaxNLocator(2))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: formats.percent(round(y, 9))))
            axes.set_title(formats.name(one.channel, NAME), loc="left", fontsize=9.5, pad=2)
            axes.grid(axis="y")
            _clock_axis(axes, bucket_ms * len(one.share))
            axes.tick_params(axis="x", labelbottom=axes is panels[-1])
        return _svg(figure)


def colour(place: int, flow: Flow) -> str:
    return PALETTE[7] if flow.channel is None else PALETTE[place]


@contextmanager
def _figures(salt: str, height: float, width: float, panels: int) -> Iterator[tuple[Figure, list[Axes]]]:
    with mpl.rc_context({**STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        # The font that measures the text here lacks some letters; the browser has them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, list(figure.subplots(panels, squeeze=False)[:, 0])


@contextmanager
def _figure(salt: str, height: float, width: float = WIDTH_IN) -> Iterator[tuple[Figure, Axes]]:
    with _figures(salt, height, width, 1) as (figure, [axes]):
        yield figure, axes


def _edges(began_at: datetime, bucket_ms: int, buckets: int) -> Any:  # noqa: ANN401 - an array of numpy
    """Where the buckets begin, and where the last one ends."""
    edges = [began_at + timedelta(milliseconds=bucket_ms * number) for number in range(buckets + 1)]
    return date2num(edges)  # type: ignore[no-untyped-call]


def _clock_axis(axes: Axes, lasts_ms: int) -> None:
    locator = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    clock = _clock(timedelta(milliseconds=lasts_ms))
    axes.xaxis.set_major_formatter(DateFormatter(clock))  # type: ignore[no-untyped-call]


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(out, format="svg", transparent=True, metadata=no_metadata)
    text = out.getvalue()
    text = re.sub(f'(?<=[a-z]: ){INK}(?=[;"])', "currentColor", text[text.index("<svg") :])
    text = re.sub(r'\s(xmlns(:xlink)?|version)="[^"]*"', "", text, count=3)
    return re.sub(r'<svg width="[^"]*" height="[^"]*"', '<svg aria-hidden="true"', text, count=1)


def _clock(span: timedelta) -> str:
    if span < timedelta(minutes=10):
        return "%H:%M:%S"
    return "%H:%M" if span < timedelta(days=2) else "%b %d"


def _height(tenants: Sequence[TenantNumbers]) -> float:
    return BAR_IN * len(tenants) + 0.6


def _names(axes: Axes, tenants: Sequence[TenantNumbers]) -> None:
    axes.set_yticks(range(len(tenants)), [formats.name(tenant.channel, NAME) for tenant in tenants])
    axes.set_ylim(len(tenants) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _seconds(wait_ms: float | None) -> float:
    """At least one millisecond, because a logarithmic scale has no 0."""
    return max(wait_ms or 0, 1) / 1000
