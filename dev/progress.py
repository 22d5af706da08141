"""Progress on stderr: a line a step, and within a long step what it has come to."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

QUIET_SECONDS = 5.0


class Steps:
    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._started = time.monotonic()
        self._now = ""

    def begin(self, what: str) -> None:
        self._number += 1
        self._now = "still at it"
        self._say(f"[{self._number}/{self._total}] {what}")

    def now(self, what: str) -> None:
        """What the step is at; said when its turn comes."""
        self._now = what

    def end(self) -> None:
        self._say("ready")

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Say meanwhile what the step is at: every second on a terminal, every few in a log."""
        finished = threading.Event()
        voice = threading.Thread(target=self._speak_until, args=(finished,))
        voice.start()
        try:
            yield
        finally:
            finished.set()
            voice.join()

    def _speak_until(self, finished: threading.Event) -> None:
        while not finished.wait(0.2 if sys.stderr.isatty() else QUIET_SECONDS):
            if sys.stderr.isatty():
                print(f"\r\033[K{self._elapsed()}       {self._now}", end="", file=sys.stderr, flush=True)
            else:
                self._say(f"      {self._now}")

    def _say(self, what: str) -> None:
        line_start = "\r\033[K" if sys.stderr.isatty() else ""
        print(f"{line_start}{self._elapsed()} {what}", file=sys.stderr, flush=True)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._started:4.0f} s"
