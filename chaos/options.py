"""The options of ./run chaos."""

import argparse
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.broken_engines import BROKEN
from chaos.faults import FAULTS
from chaos.faults.operators import REINSTALLING


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
        description="Run real clients against a real server under faults, and judge what they saw.",
    )
    parser.add_argument("--messages", type=_positive, default=20_000, metavar="N")
    parser.add_argument("--minutes", type=float, default=1.0, metavar="M", help="how long faults go on")
    parser.add_argument("--seed", default="", help="the same seed makes the same plan of faults")
    parser.add_argument("--only", type=_faults, default=(), metavar="FAULT,...", help="only these faults")
    parser.add_argument("--without", type=_faults, default=(), metavar="FAULT,...")
    parser.add_argument(
        "--engine", default="", choices=["", *sorted(BROKEN)], help="a broken engine: it must fail"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="where to write the page")
    parser.add_argument("--folder", type=Path, help="keep the journals in this new folder")
    parser.add_argument("--producers", type=_positive, default=2)
    parser.add_argument("--consumers", type=_positive, default=4)
    parser.add_argument("--workers", type=_positive, default=1)
    parser.add_argument(
        "--spark", action="store_true", help="also a Spark stream that consumes and Spark writes"
    )
    parser.add_argument("--wait", dest="wait_s", type=float, default=30.0, metavar="SECONDS",
                        help="how long a wait may take after a fault (default: 30)")  # fmt: skip
    parser.add_argument("--pg", dest="postgresql", type=int, default=18, help="the version of PostgreSQL")
    parser.add_argument("--json", action="store_true", help="print the result to stdout as JSON")
    parser.add_argument("--list", action="store_true", help="list the faults and exit")
    found = vars(parser.parse_args(arguments))
    if found.pop("list"):
        for name, fault in FAULTS.items():
            print(f"{name:24} {' '.join((fault.run.__doc__ or '').split())}")
        raise SystemExit(0)
    if found["minutes"] <= 0:
        parser.error(f"--minutes {found['minutes']:g} is not positive")
    if found["folder"] is not None and found["folder"].exists():
        parser.error(f"--folder {found['folder']} exists; name a new one")
    found["seed"] = found["seed"] or secrets.token_hex(4)
    return Options(**found)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _faults(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in FAULTS:
            raise argparse.ArgumentTypeError(f"there is no fault {name!r}; see --list")
    return names
