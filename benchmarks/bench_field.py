"""./run bench field: LonnyMQ beside other queues, each with its own worker and its own recommended settings.

All measurements take more than half an hour. Each has a fresh database on the same server. With --json, each
result is saved as soon as it is measured, and another call with the same file measures only what is missing.
So a run that was stopped can be continued.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.bench_server import bench_server
from benchmarks.field.environments import NotInstalled, python_for
from benchmarks.field.field_peers import PEERS, FieldPeer
from benchmarks.field.field_results import FieldResults, FieldRun, ResultsDiffer
from benchmarks.field.field_scenarios import Scenario, Sizes, Values, all_scenarios
from benchmarks.field.redis_server import redis_server
from benchmarks.field.stage import NothingRan, Stage, Store
from benchmarks.task_queues import load_task_queue
from benchmarks.task_queues.child import ChildFailed
from dev.arguments import above_zero, whole_number, writable_file
from lonnymq import __version__

CHECKOUT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = CHECKOUT / ".suites" / "field"
VERSIONS = """
import importlib.metadata, platform, sys
print(importlib.metadata.version(sys.argv[1]), platform.python_version())
"""


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that children are stopped
    console = Console(stderr=True)
    sizes = Sizes(options.seconds, options.held, options.backlog)
    try:
        results = FieldResults.load(options.json, asdict(sizes))
    except ResultsDiffer as error:
        print(f"./run bench field: {error}", file=sys.stderr)
        return 2
    wanted = [
        (turn, scenario, peer)
        for turn, scenario, peer in runs(options.scenarios, options.peers, options.rounds)
        if not results.has(peer.name, scenario.name, turn)
    ]
    if wanted:
        try:
            with ExitStack() as stack:
                stage = prepare(options.peers, results, stack, console)
                measure(stage, wanted, results, sizes, options.minutes, console)
        except KeyboardInterrupt:
            kept = f"; the same command continues from {options.json}" if options.json else ""
            print(f"./run bench field: stopped{kept}", file=sys.stderr)
            return 130
    if options.page:
        from benchmarks.field import field_page  # importing matplotlib is slow

        field_page.write(CHECKOUT / "docs", results, sizes)
    print(json.dumps(results.as_json(), indent=1))
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    peers, scenarios = {peer.name: peer for peer in PEERS}, {each.name: each for each in all_scenarios()}
    parser = argparse.ArgumentParser(prog="./run bench field", description=__doc__)
    seconds = above_zero(3600)
    parser.add_argument("--only", default="", metavar="PEER,...", help=f"only these: {', '.join(peers)}")
    parser.add_argument(
        "--scenario", default="", metavar="NAME,...", help=f"only these: {', '.join(scenarios)}"
    )
    parser.add_argument("--seconds", type=seconds, default=6, help="seconds of each measurement (default: 6)")
    parser.add_argument(
        "--held", type=seconds, default=60, help="seconds for which a snapshot is held (default: 60)"
    )
    parser.add_argument(
        "--backlog",
        type=whole_number(1, 10_000_000),
        default=100_000,
        help="tasks of the noisy tenant (default: 100,000)",
    )
    parser.add_argument(
        "--rounds",
        type=whole_number(1, 100),
        default=2,
        help="how often to measure enqueueing, consuming and latencies (default: 2); the others run once",
    )
    parser.add_argument(
        "--minutes", type=above_zero(7 * 24 * 60), help="start no measurement after so many minutes"
    )
    parser.add_argument(
        "--json", type=writable_file, metavar="FILE", help="keep the results here, and continue from them"
    )
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks-field.md from the results")
    options = parser.parse_args(arguments)
    for name, known in (("only", peers), ("scenario", scenarios)):
        for given in filter(None, getattr(options, name).split(",")):
            if given not in known:
                parser.error(f"--{name}: no {given!r}; choose from {', '.join(known)}")
        if getattr(options, name) and not getattr(options, name).strip(","):
            parser.error(f"--{name} names nothing; choose from {', '.join(known)}")
    options.peers = [peers[name] for name in filter(None, options.only.split(","))] or list(peers.values())
    options.scenarios = [scenarios[name] for name in filter(None, options.scenario.split(","))] or list(
        scenarios.values()
    )
    return options


def runs(
    scenarios: Sequence[Scenario], peers: Sequence[FieldPeer], rounds: int
) -> Iterator[tuple[int, Scenario, FieldPeer]]:
    """The first round has everything, so that a run that is stopped early has seen all peers."""
    for turn in range(rounds):
        for scenario in scenarios:
            if turn == 0 or scenario.is_repeated:
                for peer in peers if turn % 2 == 0 else reversed(peers):
                    if scenario.name not in peer.cannot:
                        yield turn, scenario, peer


def prepare(peers: Sequence[FieldPeer], results: FieldResults, stack: ExitStack, console: Console) -> Stage:
    """Install the libraries and start the servers. What cannot be had is noted with the reason."""
    pythons: dict[str, Path] = {}
    for peer in peers:
        try:
            pythons[peer.name] = python_for(peer.name, ENVIRONMENTS)
        except NotInstalled as error:
            results.set_missing(peer.name, str(error))
        else:
            results.missing.pop(peer.name, None)
            results.versions |= versions(peer, pythons[peer.name])
    stores: dict[str, Store] = {}
    servers: dict[str, Callable[[], AbstractContextManager[Store]]] = {
        "postgresql": bench_server,
        "redis": redis_server,
    }
    for name, server in servers.items():
        wanted = [peer for peer in pythons if load_task_queue(peer).store == name]
        if not wanted:
            continue
        try:
            stores[name] = stack.enter_context(server())
        except NotInstalled as error:
            for peer_name in wanted:
                results.set_missing(peer_name, str(error))
                del pythons[peer_name]
        else:
            results.versions[name] = stores[name].server_version()
    for peer_name, reason in results.missing.items():
        console.print(f"{peer_name} is left out: {reason}", highlight=False)
    return Stage(stores, pythons)


def versions(peer: FieldPeer, python: Path) -> dict[str, str]:
    """Of the library, and of the Python that all of them run on."""
    if peer.name == "lonnymq":  # it is not installed in its environment, but imported from this checkout
        return {peer.name: __version__}
    printed = subprocess.check_output([python, "-c", VERSIONS, peer.package], text=True)
    library, runtime = printed.split()
    return {peer.name: library, "python": runtime}


def measure(
    stage: Stage,
    wanted: Sequence[tuple[int, Scenario, FieldPeer]],
    results: FieldResults,
    sizes: Sizes,
    minutes: float | None,
    console: Console,
) -> None:
    started = time.monotonic()
    for number, (turn, scenario, peer) in enumerate(wanted, start=1):
        if peer.name not in stage.pythons:
            continue
        if minutes is not None and time.monotonic() - started > minutes * 60:
            console.print(f"{minutes:g} minutes are over: {len(wanted) - number + 1} measurements are left")
            return
        begun = time.monotonic()
        values: Values = {}
        error = None
        try:
            values = scenario.run(stage, scenario.variant.get(peer.name, peer.name), sizes)
        except (ChildFailed, NothingRan) as failure:
            error = str(failure)
        except Exception as failure:  # noqa: BLE001 - the others are still measured
            error = f"{type(failure).__name__}: {failure}"
        results.add(FieldRun(peer.name, scenario.name, turn, values, error))
        shown = error or ", ".join(f"{name} {value:,.4g}" for name, value in values.items())
        console.print(
            f"[{number}/{len(wanted)}] {scenario.name}: {peer.name}: {shown} "
            f"({time.monotonic() - begun:.0f} s)",
            highlight=False,
            markup=False,
        )
