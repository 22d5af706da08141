"""The live view. A separate thread polls the database, so that keys work while a query runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lonnymq.cli.exit_on_signal import exit_on_signal
from lonnymq.cli.failure import UNREACHABLE, exit_code, sentence
from lonnymq.cli.top.draw import PLAIN, UNICODE, draw, rows_that_fit
from lonnymq.cli.top.keyboard import Keyboard
from lonnymq.cli.top.view import ViewState, sorted_channels
from lonnymq.monitor.poll import Focus, Poller
from lonnymq.monitor.state import ChannelState, QueueSnapshot

if TYPE_CHECKING:
    from rich.console import Console, ConsoleDimensions
    from rich.live import Live

KEY_SECONDS = 0.1
SLOW_ANSWER_S = 2.0
"""After this time without an answer, the screen says so."""
DEFAULT_SIZE = (80, 24)
"""For a terminal that reports no size."""


class PollThread:
    """Polls once per interval. Retries while the database cannot be reached; any other failure ends it."""

    def __init__(self, poller: Poller, interval: float) -> None:
        self._poller = poller
        self._interval = interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lonnymq-top", daemon=True)
        self._asked_at: float | None = None
        self._unreachable: tuple[float, str] | None = None
        self.focus = Focus()
        self.snapshot: QueueSnapshot | None = None
        self.failure: Exception | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()

    def trouble(self) -> str:
        """Why the snapshot is out of date, if it is."""
        now = time.monotonic()
        unreachable, asked_at = self._unreachable, self._asked_at
        if unreachable is not None:
            since, reason = unreachable
            return f"The database has been unreachable for {now - since:.0f} s, retrying: {reason}"
        if asked_at is not None and now - asked_at > SLOW_ANSWER_S:
            return f"The database has not answered for {now - asked_at:.0f} s"
        return ""

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            self._asked_at = begin = time.monotonic()
            pause = self._interval
            try:
                self.snapshot = self._poller.poll(self.focus)
                self._unreachable = None
                spent = time.monotonic() - begin
                pause = max(self._interval - spent, spent)  # poll a slow database less often
            except Exception as error:  # noqa: BLE001 - the thread of the screen raises it
                if exit_code(error) != UNREACHABLE:
                    self.failure = error
                    return
                self._unreachable = (self._unreachable[0] if self._unreachable else begin, sentence(error))
            self._asked_at = None


class Screen:
    """Shows the latest snapshot and handles keys, until a key or a signal ends it."""

    def __init__(self, polling: PollThread, view: ViewState, console: Console) -> None:
        self._polling = polling
        self._view = view
        self._console = console
        self._glyphs = PLAIN if console.options.ascii_only else UNICODE
        self._snapshot: QueueSnapshot | None = None
        self._rows: list[ChannelState] = []
        self._drawn: object = None

    def show(self) -> None:
        """Restores the terminal afterwards."""
        from rich.live import Live

        with (
            exit_on_signal(signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
            _without_suspend(),
            Keyboard(sys.stdin.fileno()) as keyboard,
            Live(console=self._console, screen=True, auto_refresh=False) as live,
            self._polling.running(),
        ):
            while not self._view.is_over:
                if self._polling.failure is not None:
                    raise self._polling.failure
                self._refresh(live)
                for key in keyboard.keys(KEY_SECONDS):
                    self._view = self._view.press(key, len(self._rows), self._room)
                    self._list()

    @property
    def _room(self) -> int:
        return rows_that_fit(self._console.height)

    def _refresh(self, live: Live) -> None:
        if self._polling.snapshot is not self._snapshot and not (self._view.is_paused and self._snapshot):
            self._snapshot = self._polling.snapshot
            self._list()
        self._console.size = _size()
        self._view = self._view.within(len(self._rows), self._room)
        poll = self._snapshot.poll if self._snapshot else 0
        trouble = self._polling.trouble()
        now = (poll, self._view, self._console.size, trouble)
        if now == self._drawn:
            return
        self._drawn = now
        shown = self._rows[self._view.first : self._view.first + self._room]
        self._polling.focus = Focus([channel.name for channel in shown], self._view.prefix)
        width, height = self._console.size
        drawing = draw(
            self._snapshot,
            self._rows,
            self._view,
            width=width,
            height=height,
            trouble=trouble,
            glyphs=self._glyphs,
        )
        live.update(drawing, refresh=True)

    def _list(self) -> None:
        if self._snapshot is not None:
            self._rows = sorted_channels(self._snapshot, self._view.sort, self._view.prefix)


def _size() -> ConsoleDimensions:
    """The current size. COLUMNS and LINES in the environment are those of the start."""
    from rich.console import ConsoleDimensions

    columns, lines = os.get_terminal_size(sys.stdout.fileno())
    return ConsoleDimensions(columns or DEFAULT_SIZE[0], lines or DEFAULT_SIZE[1])


@contextmanager
def _without_suspend() -> Iterator[None]:
    """Ignore Ctrl-Z, which would leave the terminal in raw mode."""
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)
