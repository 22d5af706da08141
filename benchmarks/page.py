"""docs/benchmarks.md and its pictures, from the results."""

import os
import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks import fairness, fairness_picture, skew
from benchmarks.engine import Result, Titled
from benchmarks.fairness import Fairness
from lonnymq import __version__

OURS, PGMQ, SEEDS, LIMITED, FIFO = "lonnymq", "pgmq", "seeds", "with limits", "plain FIFO"
OURS_HELD, PGMQ_HELD = "lonnymq, snapshot held", "pgmq, snapshot held"
COLOURS = {OURS: "#2a6f97", PGMQ: "#e07a5f", SEEDS: "#8d99ae", LIMITED: "#81b29a"}
GROUPS = {
    "create": "Creating",
    "steady": "Producers and consumers side by side",
    "drain": "Draining a backlog of 100,000",
    "held": "While a snapshot is held open",
    "limits": "Limits that are set and do not bind",
}
NOTES = {
    "create": "8 clients of single creates, 4 of batches. Every commit is durable. Contents have 11 bytes unless the row "
    "names a size; large ones do not compress.",
    "steady": "8 producers of single messages, 8 consumers; counted is what was completed. The first second, in which "
    "new connections compile functions and plan statements, is not counted.",
    "drain": "2 consumers, until it is empty. With contents of 1 KiB and 8 KiB, 30,000 messages.",
    "held": "As above, for 90 s: three lease periods, of which the last is counted; one round. The snapshot is that of a "
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
always. A consumer that finds nothing sleeps 5 ms. Consumers read the contents of what they get. Every run has a fresh
database, and runs alternate between the three. The tables show the medians of {rounds} rounds, ± half the distance from the
slowest to the fastest, and the ratios within a round. The machine is small, so ratios say more than rates. **Bold** is the
fastest.

Workers and tasks, against PgQueuer and Procrastinate, have [a page of their own](benchmarks-worker.md).
"""
AIMS = """\
## What was aimed at, and what is reached

| aim | reached | rows that reach it |
|---|---|---:|
{aims}

{short}
What LonnyMQ does more than a queue without tenants:

- A create writes the message and, once per call, a *notice* that tells the dispatcher of it.
- The dispatcher moves each message to its place in the fair order: into `ready` directly, or through its channel's line if
  others are to be served first. One dispatcher does this for all consumers, in transactions of its own.
- A dequeue writes one lease for all that it takes, and one notice. It rewrites no message, where pgmq updates each.
- Under a held snapshot pgmq reads past everything that was served since, so it slows down with every message. LonnyMQ
  starts behind that.
"""
FAIRNESS = """\
## Fairness

One tenant has {backlog:,} messages waiting; {quiet} quiet ones get a message now and then. Counted is how many messages
are served between its creation and its own turn.

![How long a quiet tenant waits](images/fairness.svg)

| | median | longest |
|---|---:|---:|
{waits}

### Skewed loads

Ten workers, 2,000 turns: in each turn one worker becomes free and takes a message. FIFO, caps and round robin are simulated;
LonnyMQ is the real engine, which dispatches in every turn. A wait is counted in turns, that is in messages that were
served, or could have been, before that one.

{about}

{skew}

Caps protect the quiet only while the loud are few, and leave workers idle. Round robin and LonnyMQ share among channels:
where one tenant has many, weights make it one tenant again.

### Equal loads

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
    fairness_picture.write(
        pictures / "fairness.svg",
        backlog=fairness.NOISY_BACKLOG,
        quiet=fairness.QUIET_TENANTS,
        fifo=fair.waits[FIFO],
        ours=fair.waits[OURS],
    )
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


@dataclass(frozen=True)
class Aim:
    """At least `least` times the rate of a peer, in the rows that `rows` chooses."""

    text: str
    least: float
    ours: str
    theirs: str
    rows: Callable[[Titled], bool]

    def ratios(self, results: Sequence[Result]) -> Iterator[tuple[Titled, float]]:
        for result in results:
            if self.rows(result.scenario) and {self.ours, self.theirs} <= result.samples.keys():
                yield result.scenario, result.ratio(self.ours, self.theirs)


def _seeds_win(scenario: Titled) -> bool:
    """Single messages and many channels: the seeds delete a message when it is dequeued, and have no leases."""
    return scenario.title.startswith("1,000 channels") or (
        scenario.group == "steady" and not scenario.title.startswith("1 channel,")
    )


PLAIN = ("create", "steady", "drain")
ALL_AIMS = (
    Aim("at or above pgmq, creating", 1, OURS, PGMQ, lambda row: row.group == "create"),
    Aim(
        "at or above pgmq, producers and consumers side by side",
        1,
        OURS,
        PGMQ,
        lambda row: row.group == "steady",
    ),
    Aim("1.3 x pgmq, draining a backlog", 1.3, OURS, PGMQ, lambda row: row.group == "drain"),
    Aim(
        "1.1 x pgmq, creating in batches",
        1.1,
        OURS,
        PGMQ,
        lambda row: row.group == "create" and ", 100 a call" in row.title,
    ),
    Aim(
        "0.9 of the seeds: single messages, many channels",
        0.9,
        OURS,
        SEEDS,
        lambda row: row.group in PLAIN and _seeds_win(row),
    ),
    Aim("above the seeds elsewhere", 1, OURS, SEEDS, lambda row: row.group in PLAIN and not _seeds_win(row)),
    Aim("a held snapshot keeps 95 % of the rate", 0.95, OURS_HELD, OURS, lambda row: row.group == "held"),
    Aim("2.5 x pgmq under a held snapshot", 2.5, OURS_HELD, PGMQ_HELD, lambda row: row.group == "held"),
    Aim("limits that do not bind cost at most 10 %", 0.9, LIMITED, OURS, lambda row: row.group == "limits"),
)


def _aims(results: Sequence[Result]) -> str:
    lines, short = [], []
    for aim in ALL_AIMS:
        found = list(aim.ratios(results))
        if not found:
            continue
        ratios = [ratio for _, ratio in found]
        span = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else f"{ratios[0]:.2f}"
        reached = sum(ratio >= aim.least for ratio in ratios)
        lines.append(f"| {aim.text} | {span} | {reached} of {len(ratios)} |")
        short += [
            f"| {aim.text} | {row.group}: {row.title} | {ratio:.2f} |"
            for row, ratio in found
            if ratio < aim.least
        ]
    missed = "Every row reaches its aim.\n"
    if short:
        missed = "Rows that fall short:\n\n| aim | row | ratio |\n|---|---|---:|\n" + "\n".join(short) + "\n"
    return AIMS.format(aims="\n".join(lines), short=missed)


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


def _fairness_text(fair: Fairness) -> str:
    waits = [f"| {name} | {statistics.median(w):,.0f} | {max(w):,} |" for name, w in fair.waits.items()]
    jain = [f"| {name} | {index:.4f} |" for name, index in fair.jain.items()]
    return FAIRNESS.format(
        backlog=fairness.NOISY_BACKLOG,
        quiet=fairness.QUIET_TENANTS,
        waits="\n".join(waits),
        jain="\n".join(jain),
        about="\n".join(f"- *{scenario.title}*: {scenario.about}" for scenario in skew.all_scenarios()),
        skew=skew.table(fair.skew),
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
