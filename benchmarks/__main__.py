"""./run bench: benchmarks, on a private PostgreSQL server."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import engine, fairness, latency
from benchmarks.bench_server import BenchServer, bench_server
from benchmarks.engine import Result, Titled
from benchmarks.peers import LonnyMQ, Peer, Pgmq, Prototype
from benchmarks.scenarios import all_scenarios

CHECKOUT = Path(__file__).resolve().parent.parent
OTHER_BENCHMARKS = ("client", "field", "skew", "spark", "worker")
LIMITS = "p_max_concurrency => 1000"


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in OTHER_BENCHMARKS:
        benchmark = import_module(f"benchmarks.bench_{sys.argv[1]}")  # each has its own dependencies
        code: int = benchmark.main(sys.argv[2:])
        return code
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.add_argument(
        "what",
        choices=["engine", *OTHER_BENCHMARKS],
        help=f"what to measure; {', '.join(OTHER_BENCHMARKS)} have their own options",
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run only scenarios whose name contains this"
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument(
        "--seconds", type=positive, default=6, help="seconds per run, if the scenario does not set it"
    )
    parser.add_argument("--peers", default="pgmq,prototype", help="which queues to compare with")
    parser.add_argument(
        "--before", type=Path, metavar="CHECKOUT", help="also compare with another checkout of LonnyMQ"
    )
    parser.add_argument("--json", action="store_true", help="print every sample to stdout as JSON")
    parser.add_argument("--write", action="store_true", help="run everything and write docs/benchmarks.md")
    options = parser.parse_args()
    scenarios = [scenario for scenario in all_scenarios() if options.only in name(scenario)]
    if not scenarios:
        parser.error(f"no scenario contains {options.only!r}; see --list")
    if options.list:
        print(*map(name, scenarios), sep="\n")
        return 0
    unknown = sorted(set(filter(None, options.peers.split(","))) - {"pgmq", "prototype"})
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; --peers takes pgmq and prototype, separated by a comma")
    if options.write and (options.only or options.peers != "pgmq,prototype" or options.before):
        parser.error("--write needs all results: remove --only, --peers and --before")
    if options.before and not (options.before / "src" / "lonnymq" / "install").is_dir():
        parser.error(f"{options.before} is not a checkout of LonnyMQ")
    peers = select_peers(options.peers, options.before)
    console = Console(stderr=True)
    with bench_server() as server:
        results = list(
            engine.run(
                server, scenarios, peers, rounds=options.rounds, seconds=options.seconds, console=console
            )
        )
        if options.write:
            write(server, results, options.rounds, console)
    if options.json:
        json.dump([as_json(result) for result in results], sys.stdout, indent=1)
    else:
        console = Console()
        wide = console if console.is_terminal else Console(width=250)
        wide.print(as_table(results, peers))
    return 0


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def select_peers(names: str, before: Path | None) -> list[Peer]:
    peers: list[Peer] = [
        LonnyMQ(CHECKOUT),
        LonnyMQ(CHECKOUT, "with limits", limits=LIMITS),
        LonnyMQ(CHECKOUT, "lonnymq, snapshot held", has_held_snapshot=True),
    ]
    if "pgmq" in names:
        peers += [Pgmq(), Pgmq("pgmq, snapshot held", has_held_snapshot=True)]
    if "prototype" in names:
        peers.append(Prototype())
    if before:
        peers.append(LonnyMQ(before.resolve(), "before"))
    return peers


def name(scenario: Titled) -> str:
    return f"{scenario.group}, {scenario.title}"


def write(server: BenchServer, results: Sequence[Result], rounds: int, console: Console) -> None:
    from benchmarks import engine_page  # importing matplotlib is slow

    console.print("fairness")
    fair = fairness.run(server, LonnyMQ(CHECKOUT), Prototype())
    console.print("latency")
    latencies = latency.run(server, LonnyMQ(CHECKOUT), Pgmq())
    versions = {"postgresql": server.server_version(), "pgmq": f"(package {version('pgmq')})"}
    engine_page.write(CHECKOUT / "docs", results, fair, latencies, rounds=rounds, versions=versions)


def as_json(result: Result) -> dict[str, Any]:
    samples = {peer: [asdict(sample) for sample in taken] for peer, taken in result.samples.items()}
    return {"group": result.scenario.group, "title": result.scenario.title, "samples": samples}


def as_table(results: Sequence[Result], peers: Sequence[Peer]) -> Table:
    measured = {peer for result in results for peer in result.samples}
    first, *others = [peer.name for peer in peers if peer.name in measured]
    table = Table(
        "", *(f"{each}/s" for each in (first, *others)), *(f"/ {each}" for each in others), "WAL", "CPU us"
    )
    for result in results:
        present = result.samples
        rates = [
            f"{result.median(each, 'rate'):,.0f} ±{result.spread(each):.0%}" if each in present else ""
            for each in (first, *others)
        ]
        ratios = [f"{result.ratio(first, each):.2f}" if each in present else "" for each in others]
        costs = [
            " / ".join(f"{result.median(each, what):,.0f}" for each in present)
            for what in ("wal_bytes", "cpu_us")
        ]
        table.add_row(name(result.scenario), *rates, *ratios, *costs)
    return table


if __name__ == "__main__":
    sys.exit(main())
