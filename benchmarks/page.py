"""docs/benchmarks.md and its pictures, from the results."""

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks import fairness
from benchmarks.engine import Result
from benchmarks.fairness import Fairness
from lonnymq import __version__

OURS, PGMQ, SEEDS, LIMITED = "lonnymq", "pgmq", "seeds", "with limits"
OURS_HELD, PGMQ_HELD = "lonnymq, snapshot held", "pgmq, snapshot held"
COLOURS = {OURS: "#2a6f97", PGMQ: "#e07a5f", SEEDS: "#8d99ae", "plain FIFO": "#e07a5f", LIMITED: "#81b29a"}
GROUPS = {
    "create": "Creating",
    "steady": "Producers and consumers side by side",
    "drain": "Draining a backlog of 300,000",
    "held": "While a snapshot is held open",
    "limits": "Limits that are set and do not bind",
}
NOTES = {
    "create": "8 clients of single creates, 4 of batches. Every commit is durable.",
    "steady": "8 producers of single messages, 8 consumers; counted is what was completed.",
    "drain": "2 consumers, until it is empty.",
    "held": "As above, for 90 s: three lease periods, of which the last is counted; two rounds. The snapshot is that of a "
    "backup or a report that runs all the while.",
    "limits": "As above; every channel has a concurrency limit of 1,000, or none has.",
}
INTRO = """\
# Benchmarks

Made by `./run bench engine --write`; do not edit. LonnyMQ {version} on {postgresql}, {machine}.

Three sets of SQL functions on one server, driven by its pgbench: LonnyMQ; [pgmq](https://github.com/pgmq/pgmq)
{pgmq}, one queue without tenants; and the *seeds*, the design that LonnyMQ grew out of, which keeps a head and a
counter in the channel's row and has no leases and no batches. Create, dequeue and complete are each a transaction of
their own. A dequeue commits durably or asynchronously, the same for all three; creates and completes are durable
always. Who gets nothing pauses for 5 ms. Every run has a fresh database; runs alternate between the three; shown are
the medians of {rounds} rounds, ± half the way from the slowest to the fastest, and the ratios within a round. The
machine is small and shared: ratios say more than rates. **Bold** is the fastest.

Workers and tasks, against PgQueuer and Procrastinate, have [a page of their own](benchmarks-worker.md).
"""
AIMS = """\
## What was aimed at, and what is reached

| aim | reached |
|---|---|
| one hot channel, single messages: 5 x the seeds | {hot} |
| at or above pgmq, with tenants, limits and fairness | in {ahead} of {all}: creating {create}, side by side {steady}, draining {drain} |
| a held snapshot leaves 90 % of the rate | {kept} |
| and is 5 x pgmq under one | {held} |
| limits that do not bind cost at most 15 % | {limits} |

Where LonnyMQ is behind, it does more:

- A create writes the message and a *wake*, which says that the channel has something; it is what lets producers lock
  nothing. The columns on WAL show it. Batches share a wake a channel, and still enter each message into two indexes.
- A dequeue holds its channel's place in the ring until it has committed. With one channel and single messages the
  consumers take turns at it, the more so when the commit waits for the disk.
- Each channel that a dequeue visits gets a new place in the ring, in two indexes. A batch out of a thousand channels
  pays that for every few messages. It is what fairness costs.
- Under a held snapshot pgmq reads past all that was served since, so it slows down with every message: how far depends
  on how many a machine serves in those 90 s. LonnyMQ starts behind them. Five times pgmq it is not: that would be more
  than LonnyMQ reaches on this machine without a snapshot.
"""
FAIRNESS = """\
## Fairness

One tenant has {backlog:,} messages waiting; {quiet} quiet ones get a message now and then. Counted is how many messages
are served between its creation and its own turn.

![How long a quiet tenant waits](images/fairness.svg)

| | median | longest |
|---|---:|---:|
{waits}

All of 100 tenants have a backlog, and 8 consumers take from them. Jain's index is 1 when all are served alike, and 0.01
when one is served alone.

| | Jain's index |
|---|---:|
{jain}
"""
LATENCY = """\
## Latency

A lone message, from the commit of its create to the consumer that has it; nothing else goes on. pgmq has a call that
polls inside the server, every 100 ms unless told otherwise.

| | p50, ms | p99, ms |
|---|---:|---:|
{times}
"""


def write(
    docs: Path,
    results: Sequence[Result],
    fair: Fairness,
    latencies: dict[str, list[float]],
    *,
    rounds: int,
    versions: dict[str, str],
) -> None:
    pictures = docs / "images"
    pictures.mkdir(exist_ok=True)
    mpl.rcParams.update(
        {"svg.hashsalt": "lonnymq", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    _ratios_picture(results, pictures / "ratios.svg")
    _fairness_picture(fair, pictures / "fairness.svg")
    parts = [
        INTRO.format(version=__version__, machine=machine(), rounds=rounds, **versions),
        "![Messages a second, LonnyMQ over pgmq](images/ratios.svg)\n",
        *_tables(results),
        _aims(results),
        _fairness_text(fair),
        _latency_text(latencies),
    ]
    (docs / "benchmarks.md").write_text("\n".join(parts), encoding="utf-8")


def _tables(results: Sequence[Result]) -> Iterator[str]:
    for group, members in groupby(results, key=lambda result: result.scenario.group):
        of_group = list(members)
        names = [
            name
            for name in (OURS, LIMITED, OURS_HELD, PGMQ, PGMQ_HELD, SEEDS)
            if any(name in r.samples for r in of_group)
        ]
        peers = names[1:]
        yield f"## {GROUPS[group]}\n\n{NOTES[group]}\n"
        head = ["", *(f"{name}, messages/s" for name in names), *(f"{OURS} / {peer}" for peer in peers)]
        head += ["WAL bytes a message: " + " / ".join(names), "server CPU µs a message: " + " / ".join(names)]
        rows = [head, ["---", *["---:"] * (len(head) - 1)]]
        rows += [_row(result, names) for result in of_group]
        yield "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _row(result: Result, names: list[str]) -> list[str]:
    best = max(result.samples, key=lambda name: result.median(name, "rate"))

    def rate(name: str) -> str:
        if name not in result.samples:
            return "-"
        text = f"{result.median(name, 'rate'):,.0f} ±{result.spread(name):.0%}"
        return f"**{text}**" if name == best else text

    def each(what: str) -> str:
        return " / ".join(
            f"{result.median(name, what):,.0f}" if name in result.samples else "-" for name in names
        )

    ratios = [f"{result.ratio(OURS, name):.2f}" if name in result.samples else "-" for name in names[1:]]
    return [result.scenario.title, *map(rate, names), *ratios, each("wal_bytes"), each("cpu_us")]


def _aims(results: Sequence[Result]) -> str:
    def ratios(group: str, ours: str, theirs: str, title: str = "") -> list[float]:
        return [
            result.ratio(ours, theirs)
            for result in results
            if result.scenario.group == group
            and ours in result.samples
            and theirs in result.samples
            and result.scenario.title.startswith(title)
        ]

    def span(values: list[float]) -> str:
        return f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else f"{values[0]:.2f}"

    against_pgmq = {group: ratios(group, OURS, PGMQ) for group in ("create", "steady", "drain")}
    everything = [ratio for of_group in against_pgmq.values() for ratio in of_group]
    costs = [1 - 1 / ratio for ratio in ratios("limits", OURS, LIMITED)]
    return AIMS.format(
        hot=span(ratios("steady", OURS, SEEDS, "1 channel,")) + " x, durable and async",
        ahead=sum(ratio >= 1 for ratio in everything),
        all=len(everything),
        **{group: span(of_group) for group, of_group in against_pgmq.items()},
        kept=f"{statistics.median(ratios('held', OURS_HELD, OURS)):.0%}",
        held=span(ratios("held", OURS_HELD, PGMQ_HELD)) + " x",
        limits=", ".join(f"{cost:.0%}" for cost in costs),
    )


def _ratios_picture(results: Sequence[Result], path: Path) -> None:
    shown = [(result, OURS, PGMQ, "") for result in results if PGMQ in result.samples]
    shown += [(r, OURS_HELD, PGMQ_HELD, ", a snapshot held") for r in results if PGMQ_HELD in r.samples]
    figure, axes = plt.subplots(figsize=(8, 0.24 * len(shown) + 0.8), layout="constrained")
    ratios = [result.ratio(ours, theirs) for result, ours, theirs, _ in shown]
    colours = [COLOURS[OURS] if ratio >= 1 else COLOURS[PGMQ] for ratio in ratios]
    names = [f"{result.scenario.group}: {result.scenario.title}{but}" for result, _, _, but in shown]
    bars = axes.barh(names, [ratio - 1 for ratio in ratios], left=1, color=colours)
    axes.bar_label(bars, [f"{ratio:.2f}" for ratio in ratios], padding=3, fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.margins(x=0.15, y=0.01)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g} x")
    axes.invert_yaxis()
    figure.suptitle("Messages a second, LonnyMQ over pgmq", x=0.01, ha="left")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _fairness_picture(fair: Fairness, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    for name, waits in fair.waits.items():
        axes.plot(waits, ".", markersize=3, color=COLOURS[name], label=name)
    axes.axhline(2 * (fairness.QUIET_TENANTS + 1), color="black", linewidth=0.8, linestyle="--")
    axes.text(0, 2 * (fairness.QUIET_TENANTS + 1), " two turns of the ring", va="bottom")
    axes.set_yscale("log")
    axes.set_xlabel("messages of quiet tenants, as they were served")
    axes.set_ylabel("served before it")
    axes.set_title("How long a quiet tenant waits behind a backlog of 300,000", loc="left")
    axes.legend(frameon=False, loc="center", ncols=3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _fairness_text(fair: Fairness) -> str:
    waits = [f"| {name} | {statistics.median(w):,.0f} | {max(w):,} |" for name, w in fair.waits.items()]
    jain = [f"| {name} | {index:.4f} |" for name, index in fair.jain.items()]
    return FAIRNESS.format(
        backlog=fairness.NOISY_BACKLOG,
        quiet=fairness.QUIET_TENANTS,
        waits="\n".join(waits),
        jain="\n".join(jain),
    )


def _latency_text(latencies: dict[str, list[float]]) -> str:
    rows = []
    for name, times in latencies.items():
        cuts = statistics.quantiles(times, n=100)
        rows.append(f"| {name} | {cuts[49]:.1f} | {cuts[98]:.1f} |")
    return LATENCY.format(times="\n".join(rows))


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}"
