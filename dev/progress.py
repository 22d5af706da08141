"""Progress on stderr: one line per step, and during a long step what it is doing."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REPORT_INTERVAL_S = 5.0
TERMINAL_INTERVAL_S = 0.2


class Steps:
    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._started = time.monotonic()
        self._status = ""

    def begin(self, name: str) -> None:
        self._number += 1
        self._status = "still running"
        self._print(f"[{self._number}/{self._total}] {name}")

    def update(self, status: str) -> None:
        """Set what `reporting` prints next."""
        self._status = status

    def finish(self) -> None:
        self._print("ready")

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Print the step's status from time to time: often on a terminal, every few seconds in a log."""
        finished = threading.Event()
        reporter = threading.Thread(target=self._report_until, args=(finished,))
        reporter.start()
        try:
            yield
        finally:
            finished.set()
            reporter.join()

    def _report_until(self, finished: threading.Event) -> None:
        while not finished.wait(TERMINAL_INTERVAL_S if sys.stderr.isatty() else REPORT_INTERVAL_S):
            if sys.stderr.isatty():
                print(f"\r\033[K{self._elapsed()}       {self._status}", end="", file=sys.stderr, flush=True)
            else:
                self._print(f"      {self._status}")

    def _print(self, text: str) -> None:
        line_start = "\r\033[K" if sys.stderr.isatty() else ""
        print(f"{line_start}{self._elapsed()} {text}", file=sys.stderr, flush=True)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._started:4.0f} s"
