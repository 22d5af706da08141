"""./run suites, once the environment is there."""

import argparse
import dataclasses
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dev.environment import CHECKOUT
from dev.progress import Steps
from dev.suites import page, pythons, running, sources
from dev.suites.description import Suite, SuiteError, read_suites
from dev.suites.outcomes import Outcome
from lonnymq.embedded import Server

SETTINGS = {"fsync": "off", "full_page_writes": "off", "jit": "off", "max_connections": "200"}
SHOWN = 20  # failed tests
SHORT_AT_ONCE = 4  # they often wait

_downloading = threading.Lock()  # two suites may have the same source package


@dataclass(frozen=True)
class Places:
    suites: Path = CHECKOUT / "suites"
    cache: Path = CHECKOUT / ".suites"
    page: Path = CHECKOUT / "docs" / "suites.md"


@dataclass(frozen=True)
class Run:
    suite: Suite
    version: str
    python: Path | None  # None: in the environment of the checkout


def main(arguments: list[str], places: Places | None = None) -> int:
    places = places or Places()
    parser = argparse.ArgumentParser(
        prog="./run suites",
        description="Run the frameworks' own test suites on our integrations: docs/suites.md explains it.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="run only these suites; default: all")
    parser.add_argument(
        "--short",
        action="store_true",
        help="run a few tests of each, in .venv, and do not write docs/suites.md",
    )
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    options = parser.parse_args(arguments)
    try:
        suites = read_suites(places.suites, options.names)
        with _exclusive_lock(places.cache):
            outcomes = _run_all(suites, places, is_short=options.short)
    except SuiteError as error:
        print(f"./run suites: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if not options.short:
        page.write(places.page, suites, outcomes)
    if options.json:
        print(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes], indent=2))
    else:
        _print(suites, outcomes)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


def _run_all(suites: list[Suite], places: Places, *, is_short: bool) -> list[Outcome]:
    runs = _short_runs(suites) if is_short else _full_runs(suites)
    if not runs:
        return []
    steps = Steps(total=len(runs))
    at_once = SHORT_AT_ONCE if is_short else 1
    with _server() as server, steps.reporting(), ThreadPoolExecutor(at_once) as threads:
        try:
            outcomes = list(
                threads.map(lambda run: _run_one(run, places, server, steps, is_short=is_short), runs)
            )
        except KeyboardInterrupt:
            running.stopping.set()
            threads.shutdown(cancel_futures=True)
            raise
    steps.finish()
    return outcomes


def _run_one(run: Run, places: Places, server: Server, steps: Steps, *, is_short: bool) -> Outcome:
    suite = run.suite
    outcome = Outcome(suite.name, suite.source.version, run.version)
    steps.begin(f"{suite.title}, Python {run.version}")
    try:
        with _downloading:
            source = sources.unpacked(suite.source, places.cache / "sources")
        python = Path(sys.executable)
        if run.python is not None:
            steps.update("installing what the suite needs")
            python = pythons.environment_for(suite, run.version, run.python, places.cache / "environments")
        folder = places.cache / "results" / f"{suite.name}-{run.version}"
        running.run_suite(suite, source, python, server, folder, outcome, steps=steps, is_short=is_short)
    except SuiteError as error:
        outcome.error = str(error)
    return outcome


def _short_runs(suites: list[Suite]) -> list[Run]:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [Run(suite, version, None) for suite in suites if suite.short]


def _full_runs(suites: list[Suite]) -> list[Run]:
    wanted = sorted({version for suite in suites for version in suite.pythons})
    found = {version: pythons.find_python(version) for version in wanted}
    for version in wanted:
        if found[version] is None:
            print(f"Python {version} is not on this machine: its runs are left out", file=sys.stderr)
    runs = [
        Run(suite, version, found[version])
        for suite in suites
        for version in suite.pythons
        if found[version] is not None
    ]
    if suites and not runs and os.environ.get("CI") == "true":
        raise SuiteError(f"needs Python {' or '.join(wanted)}, and found none of them")
    return runs


def _print(suites: list[Suite], outcomes: list[Outcome]) -> None:
    titles = {suite.name: suite.title for suite in suites}
    for outcome in outcomes:
        counts = {
            "passed": outcome.passed,
            "not applicable": len(outcome.not_applicable),
            "skipped": len(outcome.skipped),
            "failed": len(outcome.failed),
        }
        shown = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count or kind == "passed")
        verdict = "ok" if outcome.is_good else "FAILED"
        print(f"{verdict:6}  {titles[outcome.suite]}, Python {outcome.python}: {shown}")
        for case in outcome.failed[:SHOWN]:
            print(f"        {case.test}: {case.text}")
        if len(outcome.failed) > SHOWN:
            print(f"        and {len(outcome.failed) - SHOWN} more")
        for text in filter(None, [*outcome.wrong_entries, outcome.error]):
            print(f"        {text}")
        if not outcome.is_good:
            print(f"        all of its output: .suites/results/{outcome.suite}-{outcome.python}/output.txt")


@contextmanager
def _server() -> Iterator[Server]:
    """Not in the checkout: when root runs it, the server's account cannot always reach that."""
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-suites-"))
    server = Server(folder, settings=SETTINGS)
    try:
        with server:
            yield server
    finally:
        server.erase()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _exclusive_lock(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another ./run suites is using this checkout; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
