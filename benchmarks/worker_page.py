"""docs/benchmarks-worker.md and its picture, from the results."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.engine import Result
from benchmarks.page import machine
from benchmarks.task_queues import named
from benchmarks.task_queues.task_queue import Mode
from benchmarks.worker import OURS, PERCENTS, SIDES, Latency
from benchmarks.worker_scenarios import PLAIN, VARIANTS, Load
from lonnymq import __version__

PICTURE = "worker.svg"
COLOURS = {"lonnymq": "#2a6f97", "pgqueuer": "#e07a5f", "procrastinate": "#8d99ae"}
GROUPS = {"drain": "Running", "enqueue": "Enqueueing"}
NOTES = {
    "drain": "{tasks:,} tasks are there when the workers begin, {singly:,} where they go one at a time,\n"
    "and a tenth of that for Procrastinate; a run ends when all are done in the database.",
    "enqueue": "One producer process, asynchronous, with a pool of 10 connections. Every call is a\n"
    "transaction of its own, and durable.",
}
INTRO = """\
# Benchmarks of workers

Made by `./run bench worker --write`; do not edit. LonnyMQ {lonnymq},
[PgQueuer](https://github.com/janbjorge/pgqueuer) {pgqueuer} and
[Procrastinate](https://github.com/procrastinate-org/procrastinate) {procrastinate}, on {postgresql},
{machine}.

Tasks that do nothing, with one number as their argument, are enqueued and run, each library by its own calls
and with its own worker. Workers and producers are processes of their own; every task is counted where it
runs, and again in the tables at the end. All use one server with the same settings, on which a commit waits
for the disk; every run has a fresh database; runs alternate between the three. Shown are the medians of
{rounds} rounds, ± half the way from the slowest to the fastest, and the ratios within a round. The machine is
small and shared: server, workers and what measures them have the same few cores, and ratios say more than
rates. **Bold** is the fastest.

What is set, and all else is as it comes:

{settings}

- LonnyMQ runs in asyncio's own event loop, with psycopg. Its dequeue does not wait for the disk unless told
  to: a crash of the server then loses leases at most, never messages or completions. The table of variants
  has it wait.
- PgQueuer runs on asyncpg and uvloop, with `pgq autovac` applied, as its guide on performance advises. It
  takes no plain functions: those go through `asyncio.to_thread`, as it says. It is installed with durable
  tables, its default. The table of variants has its mode *balanced*, in which the log that it keeps of each
  job is unlogged.
- Procrastinate runs on its `PsycopgConnector`. It fetches one job at a time, and runs as many at once as
  `concurrency` says; its pool has a connection for each and one more, as it advises for short jobs. Finished
  jobs stay in its table, which is its default.

![Tasks a second](images/{picture})
"""
LATENCY = """\
## Lone tasks

Workers that have nothing to do, all at their defaults, and a task every 0.2 s or so: milliseconds until it is
begun, from when the enqueue returned, which is its commit, and from when it was called; of {messages:,} tasks
each.

{table}
"""


def write(
    docs: Path,
    results: Sequence[Result],
    latencies: Sequence[Latency],
    load: Load,
    rounds: int,
    postgresql: str,
) -> None:
    pictures = docs / "images"
    pictures.mkdir(exist_ok=True)
    mpl.rcParams.update(
        {"svg.hashsalt": "lonnymq", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    _picture(results, pictures / PICTURE)
    intro = INTRO.format(
        lonnymq=__version__,
        pgqueuer=version("pgqueuer"),
        procrastinate=version("procrastinate"),
        postgresql=postgresql,
        machine=machine(),
        rounds=rounds,
        settings=_settings(),
        picture=PICTURE,
    )
    parts = [intro, _aims(results), *_groups(results, load), _variants(results), _latency(latencies)]
    (docs / "benchmarks-worker.md").write_text("\n".join(parts), encoding="utf-8")


def _settings() -> str:
    modes: dict[Mode, str] = {"single": "one at a time", "batches": "many at a time", "default": "lone tasks"}
    rows = [[queue, *(named(queue).settings[mode] for mode in modes)] for queue in PLAIN]
    return _table(["", *modes.values()], rows, numbers=False)


def _groups(results: Sequence[Result], load: Load) -> Iterator[str]:
    for group, members in groupby(results, key=lambda result: result.scenario.group):
        note = NOTES[group].format(tasks=load.tasks, singly=round(load.singly))
        yield f"## {GROUPS[group]}\n\n{note}\n\n{_rates(list(members), PLAIN)}\n"


def _variants(results: Sequence[Result]) -> str:
    """What they would be with the other's choice of what to lose in a crash."""
    shown = [result for result in results if VARIANTS[0] in result.samples]
    return f"## Variants\n\n{_rates(shown, (OURS, VARIANTS[0], 'pgqueuer', VARIANTS[1]))}\n"


def _rates(results: Sequence[Result], queues: Sequence[str]) -> str:
    costs = {"wal_bytes": "WAL bytes", "cpu_us": "server CPU µs", "worker_us": "worker CPU µs"}
    costs = {cost: title for cost, title in costs.items() if hasattr(results[0].samples[OURS][0], cost)}
    head = ["", *(f"{queue}, tasks/s" for queue in queues), *(f"{OURS} / {queue}" for queue in queues[1:])]
    head += [f"{title} a task: {' / '.join(queues)}" for title in costs.values()]
    rows = []
    for result in results:
        best = max(queues, key=lambda queue: result.median(queue, "rate"))
        rates = [f"{result.median(queue, 'rate'):,.0f} ±{result.spread(queue):.0%}" for queue in queues]
        rates = [f"**{rate}**" if queue == best else rate for queue, rate in zip(queues, rates, strict=True)]
        ratios = [f"{result.ratio(OURS, queue):.2f}" for queue in queues[1:]]
        spent = [" / ".join(f"{result.median(queue, cost):,.0f}" for queue in queues) for cost in costs]
        rows.append([result.scenario.title, *rates, *ratios, *spent])
    return _table(head, rows)


def _aims(results: Sequence[Result]) -> str:
    rows = []
    for aim, group, words in (
        ("ahead of both, tasks one at a time", "drain", "one at a time"),
        ("ahead of both, tasks many at a time", "drain", "many at a time"),
        ("and enqueueing", "enqueue", ""),
    ):
        mine = [r for r in results if r.scenario.group == group and words in r.scenario.title]
        reached = []
        for queue in PLAIN[1:]:
            ratios = [result.ratio(OURS, queue) for result in mine]
            ahead = sum(ratio >= 1 for ratio in ratios)
            reached.append(
                f"{min(ratios):.2f} to {max(ratios):.2f} x {queue}, ahead in {ahead} of {len(ratios)}"
            )
        rows.append([aim, "; ".join(reached)])
    return f"## What was aimed at, and what is reached\n\n{_table(['aim', 'reached'], rows, numbers=False)}\n"


def _latency(latencies: Sequence[Latency]) -> str:
    words = {"since_returned": "since it returned", "since_called": "since it was called"}
    head = ["", "", *(f"p{percent}, {words[side]}" for side in SIDES for percent in PERCENTS)]
    rows = []
    for latency in latencies:
        for queue in latency.times:
            times = [latency.percentile(queue, side, percent) for side in SIDES for percent in PERCENTS]
            rows.append([latency.scenario.title, queue, *(f"{time:.1f}" for time in times)])
    messages = len(latencies[0].times[OURS][SIDES[0]])
    return LATENCY.format(messages=messages, table=_table(head, rows))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    line = ["---", *["---:" if numbers else "---"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, line, *rows))


def _picture(results: Sequence[Result], path: Path) -> None:
    shown = [result for result in results if result.scenario.group == "drain"]
    figure, axes = plt.subplots(figsize=(8, 0.62 * len(shown) + 0.9), layout="constrained")
    thick = 0.8 / len(PLAIN)
    for place, queue in enumerate(PLAIN):
        rates = [result.median(queue, "rate") for result in shown]
        where = [number + (place - 1) * thick for number in range(len(shown))]
        bars = axes.barh(where, rates, thick, color=COLOURS[queue], label=queue)
        axes.bar_label(bars, [f"{rate:,.0f}" for rate in rates], padding=3, fontsize=7)
    axes.set_yticks(range(len(shown)), [result.scenario.title for result in shown])
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="upper right")
    figure.suptitle("Tasks a second", x=0.01, ha="left")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
