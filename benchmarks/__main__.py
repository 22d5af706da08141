"""./run bench: measurements, on a PostgreSQL of their own."""

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
from benchmarks.arena import Arena, arena
from benchmarks.engine import Result, Titled
from benchmarks.peers import Ours, Peer, Pgmq, Seeds
from benchmarks.scenarios import all_scenarios

CHECKOUT = Path(__file__).resolve().parent.parent
WITH_OPTIONS_OF_THEIR_OWN = ("client", "skew", "spark", "worker")
LIMITS = "p_max_concurrency => 1000"


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in WITH_OPTIONS_OF_THEIR_OWN:
        measuring = import_module(f"benchmarks.{sys.argv[1]}")  # what it needs, the others do not
        code: int = measuring.main(sys.argv[2:])
        return code
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.add_argument(
        "what",
        choices=["engine", *WITH_OPTIONS_OF_THEIR_OWN],
        help=f"what to measure; {', '.join(WITH_OPTIONS_OF_THEIR_OWN)} have options of their own",
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios whose name contains this")
    parser.add_argument("--list", action="store_true", help="name the scenarios and stop")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--seconds", type=positive, default=6, help="of a run, where that is free")
    parser.add_argument("--peers", default="pgmq,seeds", help="whom to compare with")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="and another checkout of LonnyMQ")
    parser.add_argument("--json", action="store_true", help="every sample, on stdout")
    parser.add_argument("--write", action="store_true", help="all of it, into docs/benchmarks.md")
    options = parser.parse_args()
    scenarios = [scenario for scenario in all_scenarios() if options.only in name(scenario)]
    if not scenarios:
        parser.error(f"no scenario contains {options.only!r}; --list names them")
    if options.list:
        print(*map(name, scenarios), sep="\n")
        return 0
    strangers = sorted(set(filter(None, options.peers.split(","))) - {"pgmq", "seeds"})
    if strangers:
        parser.error(f"there is no peer {strangers[0]!r}; --peers takes pgmq and seeds, with a comma")
    if options.write and (options.only or options.peers != "pgmq,seeds" or options.before):
        parser.error("--write makes the whole page: leave out --only, --peers and --before")
    if options.before and not (options.before / "src" / "lonnymq" / "install").is_dir():
        parser.error(f"{options.before} is no checkout of LonnyMQ")
    peers = chosen(options.peers, options.before)
    console = Console(stderr=True)
    with arena() as ground:
        results = list(
            engine.run(
                ground, scenarios, peers, rounds=options.rounds, seconds=options.seconds, console=console
            )
        )
        if options.write:
            write(ground, results, options.rounds, console)
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
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def chosen(names: str, before: Path | None) -> list[Peer]:
    peers: list[Peer] = [
        Ours(CHECKOUT),
        Ours(CHECKOUT, "with limits", limits=LIMITS),
        Ours(CHECKOUT, "lonnymq, snapshot held", meets_snapshot=True),
    ]
    if "pgmq" in names:
        peers += [Pgmq(), Pgmq("pgmq, snapshot held", meets_snapshot=True)]
    if "seeds" in names:
        peers.append(Seeds())
    if before:
        peers.append(Ours(before.resolve(), "before"))
    return peers


def name(scenario: Titled) -> str:
    return f"{scenario.group}, {scenario.title}"


def write(ground: Arena, results: Sequence[Result], rounds: int, console: Console) -> None:
    from benchmarks import page  # matplotlib takes its time

    console.print("fairness")
    fair = fairness.run(ground, Ours(CHECKOUT), Seeds())
    console.print("latency")
    latencies = latency.run(ground, Ours(CHECKOUT), Pgmq())
    versions = {"postgresql": ground.server_version(), "pgmq": f"(package {version('pgmq')})"}
    page.write(CHECKOUT / "docs", results, fair, latencies, rounds=rounds, versions=versions)


def as_json(result: Result) -> dict[str, Any]:
    samples = {peer: [asdict(sample) for sample in of_peer] for peer, of_peer in result.samples.items()}
    return {"group": result.scenario.group, "title": result.scenario.title, "samples": samples}


def as_table(results: Sequence[Result], peers: Sequence[Peer]) -> Table:
    measured = {peer for result in results for peer in result.samples}
    ours, *others = [peer.name for peer in peers if peer.name in measured]
    table = Table(
        "", *(f"{each}/s" for each in (ours, *others)), *(f"/ {each}" for each in others), "WAL", "CPU us"
    )
    for result in results:
        present = result.samples
        rates = [
            f"{result.median(each, 'rate'):,.0f} ±{result.spread(each):.0%}" if each in present else ""
            for each in (ours, *others)
        ]
        ratios = [f"{result.ratio(ours, each):.2f}" if each in present else "" for each in others]
        costs = [
            " / ".join(f"{result.median(each, what):,.0f}" for each in present)
            for what in ("wal_bytes", "cpu_us")
        ]
        table.add_row(name(result.scenario), *rates, *ratios, *costs)
    return table


if __name__ == "__main__":
    sys.exit(main())
