"""The report of a soak: one self-contained page with a plot of each group of series, and the verdict."""

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from benchmarks.soak.flatness import AMOUNTS, GROWTH_MAX, Trend
from dev.conditions import conditions
from lonnymq import __version__

GROUPS: dict[str, str | tuple[str, ...]] = {
    "Tables, MB": "table ",
    "Indexes, MB": "indexes of ",
    "Dead rows": "dead rows of ",
    "Pages read per call": "buffers per ",
    "Latencies, ms": (", p50 ms", ", p99 ms"),
    "Age of the oldest snapshot, s": ("oldest snapshot",),
    "Memory of processes, MB": ("worker ", "largest backend", "all backends"),
    "Messages that wait or are leased, and dead letters": ("backlog", "dead letters"),
    "History, MB: grows for as long as it is kept": "history of ",
}
SHOWN_MAX = 7  # series in a plot: those with the highest values
PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>LonnyMQ soak</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em }}
table {{ border-collapse: collapse }} td, th {{ padding: 2px 12px; text-align: right; border-bottom: 1px solid #ddd }}
td:first-child, th:first-child {{ text-align: left }} .grows {{ color: #b00020; font-weight: 600 }} svg {{ max-width: 100% }}
</style></head><body>
<h1>{verdict}</h1>
<p>LonnyMQ {version}, {conditions}, {minutes:.1f} minutes. The trend is the median of the slopes between all pairs of
samples in the last two thirds (Theil-Sen). A series grows if, by its trend, it gains more than {share:.0%} of its median during
them, and more than {amounts}.</p>
{plots}
<table><tr><th>series</th><th>level</th><th>growth</th><th>verdict</th></tr>
{rows}
</table></body></html>
"""


def write(
    page: Path,
    picture: Path | None,
    times: Mapping[str, Sequence[float]],
    series: Mapping[str, Sequence[float]],
    trends: Mapping[str, Trend],
) -> None:
    figure = draw(times, series)
    output = io.StringIO()
    figure.savefig(output, format="svg", metadata={"Date": None})
    if picture is not None:
        figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)
    svg = output.getvalue()
    rows = "\n".join(
        f"<tr{'' if trend.is_flat else ' class=grows'}><td>{html.escape(name)}</td><td>{trend.level:,.4g}</td>"
        f"<td>{trend.growth:+,.4g} ({trend.share:+.0%})</td><td>{'flat' if trend.is_flat else 'grows'}</td></tr>"
        for name, trend in sorted(trends.items(), key=lambda item: item[1].is_flat)
    )
    flat = sum(trend.is_flat for trend in trends.values())
    content = PAGE.format(
        verdict=f"{flat} of {len(trends)} series are flat after the warm-up",
        version=__version__,
        conditions=conditions(),
        minutes=max((at for each in times.values() for at in each), default=0.0) / 60,
        share=GROWTH_MAX,
        amounts=", ".join(f"{amount:g} {unit}" for unit, amount in AMOUNTS.items()),
        plots=svg[svg.index("<svg") :],
        rows=rows,
    )
    page.write_text(content, encoding="utf-8")


def draw(times: Mapping[str, Sequence[float]], series: Mapping[str, Sequence[float]]) -> Figure:
    mpl.rcParams.update(
        {"svg.hashsalt": "lonnymq", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, axes = plt.subplots(3, 3, figsize=(14, 11), layout="constrained")
    for place, (title, marks) in zip(axes.flat, GROUPS.items(), strict=True):
        names = [name for name in series if belongs(name, marks)]
        names.sort(key=lambda name: -max(series[name]))
        for name in names[:SHOWN_MAX]:
            place.plot([at / 60 for at in times[name]], series[name], label=name, linewidth=1)
        place.set_title(title, loc="left")
        place.set_ylim(bottom=0)
        place.set_xlabel("minutes")
        if names:
            place.legend(frameon=False, fontsize=6)
    return figure


def belongs(name: str, marks: str | tuple[str, ...]) -> bool:
    return name.startswith(marks) or name.endswith(marks)
