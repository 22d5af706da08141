"""The options of ./run chaos."""

import argparse
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.broken_engines import BROKEN
from chaos.faults import FAULTS
from chaos.faults.operators import REINSTALLING
from dev.arguments import above_zero, new_folder, whole_number, writable_file
from lonnymq.embedded import BinariesMissing, binaries

MESSAGES_MAX = 100_000_000  # producers number theirs within as many
MINUTES_MAX = 7 * 24 * 60
PROCESSES_MAX = 25  # of each kind: the server accepts 120 connections
WAIT_MAX_S = 3600


@dataclass(frozen=True)
class Options:
    messages: int = 20_000
    minutes: float = 1.0
    seed: str = ""
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    engine: str = ""
    report: Path | None = None
    folder: Path | None = None
    postgresql: int = 18
    json: bool = False
    producers: int = 2
    consumers: int = 4
    workers: int = 1
    spark: bool = False
    wait_s: float = 30.0

    @property
    def seconds(self) -> float:
        return self.minutes * 60

    @property
    def faults(self) -> set[str]:
        """With a broken engine, those that expose it. Not an upgrade, which would repair it."""
        if self.engine:
            return set(self.only or BROKEN[self.engine].only) - REINSTALLING
        return (set(self.only) or set(FAULTS)) - set(self.without)


def from_arguments(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="./run chaos",
        description="Run real clients against a real server under faults, and judge what they saw: "
        "docs/chaos.md explains it.",
    )
    parser.add_argument("--messages", type=whole_number(1, MESSAGES_MAX), default=20_000, metavar="N",
                        help="how many messages producers create (default: 20,000)")  # fmt: skip
    parser.add_argument("--minutes", type=above_zero(MINUTES_MAX), default=1.0, metavar="M",
                        help="minutes in which faults begin (default: 1); a run takes longer")  # fmt: skip
    parser.add_argument("--seed", default="", help="the same seed gives the same plan (default: random)")
    parser.add_argument("--only", type=_faults, default=(), metavar="FAULT,...", help="only these faults")
    parser.add_argument(
        "--without", type=_faults, default=(), metavar="FAULT,...", help="all faults but these"
    )
    engines = sorted(BROKEN)
    parser.add_argument("--engine", default="", choices=engines, metavar="NAME",
                        help="install an engine with this defect; the exit code is 0 if the judge finds it: "
                        f"{', '.join(engines)}")  # fmt: skip
    parser.add_argument(
        "--report", type=writable_file, metavar="FILE", help="write a report in HTML to this file"
    )
    parser.add_argument("--folder", type=new_folder, help="keep the journals in this new folder")
    processes = whole_number(1, PROCESSES_MAX)
    parser.add_argument(
        "--producers", type=processes, default=2, metavar="N", help="number of producers (default: 2)"
    )
    parser.add_argument(
        "--consumers", type=processes, default=4, metavar="N", help="number of consumers (default: 4)"
    )
    parser.add_argument(
        "--workers", type=processes, default=1, metavar="N", help="number of workers (default: 1)"
    )
    parser.add_argument(
        "--spark", action="store_true", help="also write and consume with Spark, which needs 2 GB more memory"
    )
    parser.add_argument("--wait", dest="wait_s", type=above_zero(WAIT_MAX_S), default=30.0, metavar="SECONDS",
                        help="how long messages may wait after a fault (default: 30)")  # fmt: skip
    parser.add_argument("--pg", dest="postgresql", type=_installed_version, default=18, metavar="VERSION",
                        help="the version of PostgreSQL (default: 18)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result to stdout as JSON")
    parser.add_argument("--list", action="store_true", help="list the faults and exit")
    found = vars(parser.parse_args(arguments))
    if found.pop("list"):
        for name, fault in FAULTS.items():
            print(f"{name:24} {' '.join((fault.run.__doc__ or '').split())}")
        raise SystemExit(0)
    if found["engine"] and found["without"]:
        parser.error("--without does nothing with --engine; use --only")
    found["seed"] = found["seed"] or secrets.token_hex(4)
    return Options(**found)


def _installed_version(text: str) -> int:
    version = whole_number(15, 99)(text)
    try:
        binaries(version)
    except BinariesMissing as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return version


def _faults(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in FAULTS:
            raise argparse.ArgumentTypeError(f"there is no fault {name!r}; see --list")
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names no fault; see --list")
    return names
