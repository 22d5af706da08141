"""A signal ends the process through SystemExit, so that context managers clean up first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_CODE_BASE = 128
"""A shell reports a process that a signal ended with this plus the signal's number."""


@contextmanager
def exit_on_signal(*numbers: signal.Signals) -> Iterator[None]:
    def leave(number: int, _: object) -> None:
        raise SystemExit(EXIT_CODE_BASE + number)

    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
