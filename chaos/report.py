"""The page of a run: what was judged, and a timeline of the faults above what the clients got done."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

import numpy as np

from chaos.case import Verdict
from chaos.cluster import is_in_memory
from chaos.evidence import OK, Floats, Table
from chaos.faults import FAULTS
from chaos.options import Options
from chaos.plan import CALM
from chaos.run import Result, error_counts, fault_counts, summary
from dev.conditions import conditions
from lonnymq import __version__
from lonnymq.formatting import plural
from lonnymq.spark.reports.html_page import html_page

WIDTH, LEFT, ROW, PLOT = 1100, 170, 13, 110
BINS_MAX = 450
COLOURS = {
    "created": "var(--soft)",
    "delivered": "var(--accent)",
    "p50": "var(--accent)",
    "p99": "var(--warn)",
}


def write(result: Result, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_page("Chaos", _body(result)), encoding="utf-8")


def _body(result: Result) -> Iterator[str]:
    options = result.options
    faults = fault_counts(result)
    judged = [v for v in result.verdicts if v.judged]
    broken = [v for v in result.verdicts if not v.holds]
    yield f'<p class="soft">{escape(_conditions(result))}</p>'
    style = "soft" if result.holds else "warning"
    yield f'<p class="{style}">{escape(summary(result).capitalize())}.</p>'
    for failure in result.failures:
        yield f'<p class="warning" style="white-space:pre-wrap">{escape(failure)}</p>'
    yield '<div class="cards">'
    yield _card(f"{result.counts['messages committed']:,}", "messages committed")
    killed = Counter(f["fault"] for f in result.evidence.faults if "process" in f or "crash" in f)
    yield _card(f"{killed['worker-kill']:,}", "workers killed (SIGKILL)")
    yield _card(f"{killed['server-kill']:,}", "servers killed (SIGKILL)")
    yield _card(f"{len(judged) - len(broken)} of {len(judged)}", "statements hold")
    yield "</div>"
    yield '<section class="sheet"><h2>Timeline</h2>'
    yield '<p class="soft">Each mark is a fault, and each band a time without faults. Below: messages per'
    yield " second, and how long a dequeue took.</p>"
    yield from _timeline(result)
    yield "</section>"
    yield '<section class="sheet"><h2>What must hold</h2>'
    yield '<p class="soft">Judged from the journals of the clients, and what the database had at the end.</p>'
    yield from _verdicts(result.verdicts)
    yield "</section>"
    yield '<section class="sheet"><h2>Faults</h2>'
    ended = Counter(fault["fault"] for fault in result.evidence.faults if "ended" in fault)
    rows = [
        (name, f"{number:,}", f"{ended[name]:,}" if ended[name] else "", _about(name))
        for name, number in sorted(faults.items())
        if name != CALM
    ]
    yield from _table(("fault", "times", "of these ended early", "what happened"), rows)
    for name, reason in result.skipped.items():
        yield f'<p class="soft">{escape(name)} was left out: it {escape(reason)}.</p>'
    yield "</section>"
    yield '<section class="sheet"><h2>Counts</h2>'
    numbers = [(name, f"{value:,}") for name, value in result.counts.items()]
    numbers += [(f"calls that failed with {name}", f"{n:,}") for name, n in error_counts(result).items()]
    numbers += [(f"seconds: {name}", f"{value:.0f}") for name, value in result.seconds.items()]
    yield from _table(("", "number"), numbers)
    yield "</section>"
    yield f'<p class="soft">To run the same plan: <code>{escape(_command(options))}</code></p>'


def _command(options: Options) -> str:
    """Runs the same plan with the same clients."""
    usual = Options()
    command = ["./run chaos", f"--messages {options.messages}", f"--minutes {options.minutes:g}"]
    command.append(f"--seed {options.seed}")
    for option, chosen in (("only", options.only), ("without", options.without)):
        command += [f"--{option} {','.join(chosen)}"] if chosen else []
    for option, number, default in (
        ("producers", options.producers, usual.producers),
        ("consumers", options.consumers, usual.consumers),
        ("workers", options.workers, usual.workers),
        ("wait", options.wait_s, usual.wait_s),
        ("pg", options.postgresql, usual.postgresql),
    ):
        command += [f"--{option} {number:g}"] if number != default else []
    command += [f"--engine {options.engine}"] if options.engine else []
    command += ["--spark"] if options.spark else []
    return " ".join(command)


def _conditions(result: Result) -> str:
    options = result.options
    return (
        f"{options.messages:,} messages in {options.minutes:g} minutes, seed {options.seed},"
        f" PostgreSQL {result.server} with fsync and synchronous_commit on,"
        f" {plural(options.producers, 'producer')}, {plural(options.consumers, 'consumer')},"
        f" {plural(options.workers, 'worker')}{' and Spark' if options.spark else ''},"
        f" Python {platform.python_version()}, LonnyMQ {__version__}; {conditions()}."
        f" The files of the server are {'in memory' if is_in_memory() else 'on disk'}."
        f" After a fault, a wait may take {options.wait_s:g} seconds."
        + (f" The engine was broken on purpose: {options.engine}." if options.engine else "")
    )


def _card(number: str, label: str) -> str:
    return f'<div class="card"><b>{escape(number)}</b><span class="soft">{escape(label)}</span></div>'


def _about(name: str) -> str:
    return " ".join((FAULTS[name].run.__doc__ or "").split())


def _verdicts(verdicts: Iterable[Verdict]) -> Iterator[str]:
    rows = []
    for v in verdicts:
        outcome = (
            "not exercised" if not v.judged and v.holds else "holds" if v.holds else f"{v.broken:,} broken"
        )
        rows.append(
            (f"{v.rule}: {v.title}", outcome, f"{v.judged:,}", " · ".join([v.note, *v.examples]).strip(" ·"))
        )
    yield from _table(("invariant", "verdict", "cases", ""), rows)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield '<div class="scroll"><table><thead><tr>'
    yield "".join(f'<th style="text-align:left;padding:6px 8px">{escape(name)}</th>' for name in head)
    yield "</tr></thead><tbody>"
    for row in rows:
        first, *rest = row
        cells = "".join(
            f'<td style="text-align:left;white-space:normal">{escape(cell)}</td>' for cell in rest
        )
        yield f'<tr><td style="max-width:none;white-space:normal">{escape(first)}</td>{cells}</tr>'
    yield "</tbody></table></div>"


class _Scale:
    """Turns times into positions on the picture."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end

    def x(self, at: float) -> float:
        part = (at - self.begin) / max(self.end - self.begin, 1.0)
        return LEFT + (WIDTH - LEFT) * min(max(part, 0.0), 1.0)

    def bins(self) -> Floats:
        count = min(BINS_MAX, max(2, int((self.end - self.begin) / 1000)))
        return np.linspace(self.begin, self.end, count + 1)


def _timeline(result: Result) -> Iterator[str]:
    calls = result.evidence.calls
    done = calls.where(calls.outcome == OK)
    if not len(done):
        return
    scale = _Scale(float(done.begin.min()), float(done.end.max()))
    names = sorted({f["fault"] for f in result.evidence.faults if f["fault"] != CALM})
    top = ROW * len(names) + 12
    height = top + 2 * PLOT + 60
    yield f'<div class="plot"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Timeline">'
    for fault in result.evidence.faults:
        x, width = scale.x(fault["begin"]), scale.x(fault["end"]) - scale.x(fault["begin"])
        if fault["fault"] == CALM:
            yield f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="{height - 20}" fill="var(--tint)"/>'
            continue
        y = ROW * names.index(fault["fault"])
        title = f"{fault['fault']}, {(fault['begin'] - scale.begin) / 1000:.1f} s"
        yield (
            f'<rect x="{x:.1f}" y="{y + 2}" width="{max(width, 1.5):.1f}" height="{ROW - 4}"'
            f' fill="var(--warn)">'
            f"<title>{escape(title)}</title></rect>"
        )
    for i, name in enumerate(names):
        yield _text(LEFT - 6, ROW * i + 10, name, "end")
    edges = scale.bins()
    rates = {
        "created": _per_second(done.where(done.kind == 0), edges),
        "delivered": _per_second(done.where(done.kind == 1), edges),
    }
    yield from _plot(scale, edges, rates, top, "messages per second", 1.0)
    taken = done.where((done.kind == 1) & (done.size > 0))
    waits = {"p50": _quantile(taken, edges, 0.5), "p99": _quantile(taken, edges, 0.99)}
    yield from _plot(scale, edges, waits, top + PLOT + 20, "ms per dequeue", 1.0)
    for part in range(6):
        at = scale.begin + (scale.end - scale.begin) * part / 5
        yield _text(
            scale.x(at), height - 4, f"{(at - scale.begin) / 60_000:.1f} min", "middle" if part else "start"
        )
    yield "</svg></div>"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="10" fill="var(--soft)">'
        f"{escape(text)}</text>"
    )


def _per_second(calls: Table, edges: Floats) -> Floats:
    sums, _ = np.histogram(calls.end, bins=edges, weights=calls.size)
    return np.asarray(sums / (np.diff(edges) / 1000), dtype=np.float64)


def _quantile(calls: Table, edges: Floats, part: float) -> Floats:
    values = np.zeros(len(edges) - 1)
    places = np.searchsorted(edges, calls.end, side="right") - 1
    took = calls.end - calls.begin
    for i in range(len(values)):
        inside = took[places == i]
        values[i] = np.quantile(inside, part) if len(inside) else 0
    return values


def _plot(
    scale: _Scale, edges: Floats, series: dict[str, Floats], top: float, unit: str, least: float
) -> Iterator[str]:
    highest = max(least, *(float(np.quantile(values, 0.995)) for values in series.values()))
    yield _text(LEFT - 6, top + 10, f"{highest:,.0f}", "end")
    yield _text(LEFT - 6, top + 24, unit, "end")
    yield f'<line x1="{LEFT}" x2="{WIDTH}" y1="{top + PLOT}" y2="{top + PLOT}" stroke="var(--line)"/>'
    middles = (edges[:-1] + edges[1:]) / 2
    for i, (name, values) in enumerate(series.items()):
        points = " ".join(
            f"{scale.x(at):.1f},{top + PLOT * (1 - min(value / highest, 1)):.1f}"
            for at, value in zip(middles, values, strict=True)
        )
        yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.2"/>'
        yield _text(LEFT - 6, top + 42 + 13 * i, f"— {name}", "end").replace("var(--soft)", COLOURS[name])
