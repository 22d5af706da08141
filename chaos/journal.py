"""The files in which each process notes what it does: one JSON object per line.

A call has two lines, one before it and one after it. Each line is written at once, so that it survives its
process. Without the second line, nobody knows whether the call took effect.
"""

import json
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["ok", "failed", "rolled back", "unknown"]
Record = dict[str, Any]


def now_ms() -> float:
    """The clock that all processes of this machine share, and that nobody sets."""
    return time.monotonic_ns() / 1e6


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Journal:
    def __init__(self, path: Path, name: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._calls = count(1)  # threads may share it
        self.write({"kind": "start", "name": name, "pid": os.getpid()})

    def write(self, record: Record) -> None:
        stamped = {"at": round(now_ms(), 3), "wall": wall_ms()} | record
        os.write(self._file, json.dumps(stamped, separators=(",", ":")).encode() + b"\n")

    def before(self, kind: str, **facts: Any) -> int:
        """Note that a call is about to be made, and return its number."""
        call = next(self._calls)
        self.write({"call": call, "kind": kind} | facts)
        return call

    def after(self, call: int, outcome: Outcome, **facts: Any) -> None:
        self.write({"call": call, "outcome": outcome} | facts)

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> Iterator[Record]:
    """The records of a journal. The last line of a killed process may be incomplete, and is left out."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
