"""./run bench worker: tasks that do nothing, by our worker and by others, in turns within one run.

Workers and producers are processes of their own; every task is counted where it runs and again in the
tables. All are on one server, with the same settings, and commit as they do unless told otherwise.
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

from benchmarks.arena import Arena, arena
from benchmarks.engine import Result, Titled
from benchmarks.task_queues import named
from benchmarks.worker_scenarios import PLAIN, Load, Lone, WorkerScenario, all_scenarios

OURS = PLAIN[0]
SIDES = ("since_returned", "since_called")
PERCENTS = (50, 99)
CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass
class Latency:
    """How long lone tasks took to be begun: of each task queue, by what it is counted from, milliseconds."""

    scenario: Lone
    times: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, queue: str, times: dict[str, list[float]]) -> None:
        of_queue = self.times.setdefault(queue, {})
        for since, more in times.items():
            of_queue.setdefault(since, []).extend(more)

    def percentile(self, queue: str, since: str, percent: int) -> float:
        return statistics.quantiles(self.times[queue][since], n=100, method="inclusive")[percent - 1]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run bench worker", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios whose name contains this")
    parser.add_argument("--list", action="store_true", help="name the scenarios and stop")
    parser.add_argument("--queues", default=",".join(PLAIN), help="whom to measure")
    parser.add_argument(
        "--tasks", type=int, default=20_000, help="a run; a twentieth of it where they go singly"
    )
    parser.add_argument("--lone", type=int, default=100, help="lone tasks a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="every sample, on stdout")
    parser.add_argument("--write", action="store_true", help="all of it, into docs/benchmarks-worker.md")
    options = parser.parse_args(arguments)
    if min(options.tasks, options.rounds) < 1 or options.lone < 2:
        parser.error("--tasks and --rounds take 1 or more, --lone 2 or more")
    scenarios = [scenario for scenario in all_scenarios() if options.only in name(scenario)]
    if not scenarios:
        parser.error(f"no scenario contains {options.only!r}; --list names them")
    if options.list:
        print(*map(name, scenarios), sep="\n")
        return 0
    chosen = options.queues.split(",")
    if strangers := sorted(set(chosen) - set(PLAIN)):
        parser.error(
            f"there is no task queue {strangers[0]!r}; --queues takes {', '.join(PLAIN)}, with commas"
        )
    if options.write and (options.only or set(chosen) != set(PLAIN)):
        parser.error("--write makes the whole page: leave out --only and --queues")
    load = Load(options.tasks, options.lone)
    with arena() as ground:
        measuring = Measuring(ground, chosen, load, options.rounds, Console(stderr=True))
        results = [measuring.rates(each) for each in scenarios if not isinstance(each, Lone)]
        latencies = [measuring.latency(each) for each in scenarios if isinstance(each, Lone)]
        if options.write:
            from benchmarks import worker_page  # matplotlib takes its time

            postgresql = ground.server_version()
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
class Measuring:
    ground: Arena
    chosen: Sequence[str]
    load: Load
    rounds: int
    console: Console

    def rates(self, scenario: WorkerScenario) -> Result:
        result = Result(scenario)
        for queue in self._turns(scenario.queues):
            sample = scenario.run(self.ground, named(queue), self.load)
            result.samples.setdefault(queue, []).append(sample)
            self._tell(f"{name(scenario)}: {queue} {sample.rate:,.0f}/s")
        return result

    def latency(self, scenario: Lone) -> Latency:
        result = Latency(scenario)
        for queue in self._turns(scenario.queues):
            times = scenario.run(self.ground, named(queue), self.load)
            result.add(queue, times)
            self._tell(f"{name(scenario)}: {queue} {statistics.median(times[SIDES[0]]):.1f} ms")
        return result

    def _turns(self, queues: Sequence[str]) -> Iterator[str]:
        """Of those chosen and their variants, round by round, every other round backwards."""
        mine = [queue for queue in queues if queue.partition(",")[0] in self.chosen]
        for turn in range(self.rounds):
            yield from mine if turn % 2 == 0 else reversed(mine)

    def _tell(self, line: str) -> None:
        self.console.print(line, highlight=False)


def as_json(results: Sequence[Result], latencies: Sequence[Latency]) -> list[dict[str, Any]]:
    def head(scenario: Titled) -> dict[str, Any]:
        return {"group": scenario.group, "title": scenario.title}

    def samples(result: Result) -> dict[str, list[dict[str, float]]]:
        return {queue: [asdict(sample) for sample in had] for queue, had in result.samples.items()}

    rates = [head(result.scenario) | {"samples": samples(result)} for result in results]
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
    heads = [f"p{percent} ms {side.replace('_', ' ')}" for side in SIDES for percent in PERCENTS]
    table = Table("", "", *heads)
    for latency in latencies:
        for queue in latency.times:
            times = [latency.percentile(queue, side, percent) for side in SIDES for percent in PERCENTS]
            table.add_row(name(latency.scenario), queue, *(f"{time:.1f}" for time in times))
    return table
