"""./run bench worker: compares our worker with others on tasks that do nothing, alternating.

Workers and producers are separate processes. Every task is counted when it runs, and again in the tables.
All use one server with the same settings, and commit the way they do by default.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bench_server import BenchServer, bench_server
from benchmarks.engine import Result, Titled
from benchmarks.task_queues import load_task_queue
from benchmarks.worker_scenarios import QUEUES, Load, Lone, WorkerScenario, all_scenarios

OURS = QUEUES[0]
MEASURED_FROM = ("since_returned", "since_called")
PERCENTS = (50, 99)
CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass
class Latency:
    """Milliseconds until lone tasks started, by task queue and by what they are measured from."""

    scenario: Lone
    times: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, queue: str, times: dict[str, list[float]]) -> None:
        queue_times = self.times.setdefault(queue, {})
        for since, more in times.items():
            queue_times.setdefault(since, []).extend(more)

    def percentile(self, queue: str, since: str, percent: int) -> float:
        return statistics.quantiles(self.times[queue][since], n=100, method="inclusive")[percent - 1]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run bench worker", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run only scenarios whose name contains this"
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    parser.add_argument(
        "--queues", default=",".join(QUEUES), help="which task queues to measure, separated by commas"
    )
    parser.add_argument(
        "--tasks",
        type=int,
        default=20_000,
        help="tasks per run; a twentieth of that if they run one at a time",
    )
    parser.add_argument("--lone", type=int, default=100, help="lone tasks per run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print every sample to stdout as JSON")
    parser.add_argument(
        "--write", action="store_true", help="run everything and write docs/benchmarks-worker.md"
    )
    options = parser.parse_args(arguments)
    if min(options.tasks, options.rounds) < 1 or options.lone < 2:
        parser.error("--tasks and --rounds must be at least 1, --lone at least 2")
    scenarios = [scenario for scenario in all_scenarios() if options.only in name(scenario)]
    if not scenarios:
        parser.error(f"no scenario contains {options.only!r}; see --list")
    if options.list:
        print(*map(name, scenarios), sep="\n")
        return 0
    chosen = options.queues.split(",")
    if unknown := sorted(set(chosen) - set(QUEUES)):
        parser.error(
            f"unknown task queue {unknown[0]!r}; --queues takes {', '.join(QUEUES)}, separated by commas"
        )
    if options.write and (options.only or set(chosen) != set(QUEUES)):
        parser.error("--write needs all results: remove --only and --queues")
    load = Load(options.tasks, options.lone)
    with bench_server() as server:
        benchmark = WorkerBenchmark(server, chosen, load, options.rounds, Console(stderr=True))
        results = [benchmark.rates(each) for each in scenarios if not isinstance(each, Lone)]
        latencies = [benchmark.latency(each) for each in scenarios if isinstance(each, Lone)]
        if options.write:
            from benchmarks import worker_page  # importing matplotlib is slow

            postgresql = server.server_version()
            worker_page.write(CHECKOUT / "docs", results, latencies, load, options.rounds, postgresql)
    if options.json:
        json.dump(as_json(results, latencies), sys.stdout, indent=1)
        return 0
    if results:
        Console().print(rates_table(results))
    if latencies:
        Console().print(latency_table(latencies))
    return 0


def name(scenario: Titled) -> str:
    return f"{scenario.group}, {scenario.title}"


@dataclass(frozen=True)
class WorkerBenchmark:
    server: BenchServer
    chosen: Sequence[str]
    load: Load
    rounds: int
    console: Console

    def rates(self, scenario: WorkerScenario) -> Result:
        result = Result(scenario)
        for queue in self._turns(scenario.queues):
            sample = scenario.run(self.server, load_task_queue(queue), self.load)
            result.samples.setdefault(queue, []).append(sample)
            self._print(f"{name(scenario)}: {queue} {sample.rate:,.0f}/s")
        return result

    def latency(self, scenario: Lone) -> Latency:
        result = Latency(scenario)
        for queue in self._turns(scenario.queues):
            times = scenario.run(self.server, load_task_queue(queue), self.load)
            result.add(queue, times)
            self._print(f"{name(scenario)}: {queue} {statistics.median(times[MEASURED_FROM[0]]):.1f} ms")
        return result

    def _turns(self, queues: Sequence[str]) -> Iterator[str]:
        """The chosen queues and their variants, once per round; every second round in reverse order."""
        selected = [queue for queue in queues if queue.partition(",")[0] in self.chosen]
        for turn in range(self.rounds):
            yield from selected if turn % 2 == 0 else reversed(selected)

    def _print(self, line: str) -> None:
        self.console.print(line, highlight=False)


def as_json(results: Sequence[Result], latencies: Sequence[Latency]) -> list[dict[str, Any]]:
    def head(scenario: Titled) -> dict[str, Any]:
        return {"group": scenario.group, "title": scenario.title}

    def as_dicts(result: Result) -> dict[str, list[dict[str, float]]]:
        return {queue: [asdict(sample) for sample in samples] for queue, samples in result.samples.items()}

    rates = [head(result.scenario) | {"samples": as_dicts(result)} for result in results]
    return rates + [head(latency.scenario) | {"milliseconds": latency.times} for latency in latencies]


def rates_table(results: Sequence[Result]) -> Table:
    table = Table("", "", "tasks/s", "lonnymq is", "WAL bytes", "server CPU us", "worker CPU us")
    for result in results:
        for queue, samples in result.samples.items():
            costs = [
                f"{result.median(queue, what):,.0f}" if hasattr(samples[0], what) else ""
                for what in ("wal_bytes", "cpu_us", "worker_us")
            ]
            table.add_row(
                name(result.scenario),
                queue,
                f"{result.median(queue, 'rate'):,.0f} ±{result.spread(queue):.0%}",
                f"{result.ratio(OURS, queue):.2f} x" if OURS in result.samples and queue != OURS else "",
                *costs,
            )
    return table


def latency_table(latencies: Sequence[Latency]) -> Table:
    columns = [f"p{percent} ms {start.replace('_', ' ')}" for start in MEASURED_FROM for percent in PERCENTS]
    table = Table("", "", *columns)
    for latency in latencies:
        for queue in latency.times:
            times = [
                latency.percentile(queue, start, percent) for start in MEASURED_FROM for percent in PERCENTS
            ]
            table.add_row(name(latency.scenario), queue, *(f"{time:.1f}" for time in times))
    return table
