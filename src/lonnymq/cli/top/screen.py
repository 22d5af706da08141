"""The live view: looks go on in a thread of their own, so that keys are answered while the database works."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lonnymq.cli.failure import UNREACHABLE, exit_code, sentence
from lonnymq.cli.top.draw import PLAIN, UNICODE, draw, fitting
from lonnymq.cli.top.keyboard import Keyboard
from lonnymq.cli.top.poll import Focus, Looker
from lonnymq.cli.top.state import Picture, Seen
from lonnymq.cli.top.view import View, listed

if TYPE_CHECKING:
    from rich.console import Console, ConsoleDimensions
    from rich.live import Live

KEY_SECONDS = 0.1
PATIENCE = 2.0
"""Seconds without an answer, after which the screen says so."""
SIGNALLED = 128
NO_SIZE = (80, 24)
"""Of a terminal that does not know its own."""


class Watch:
    """Looks once in each interval. A database that is away is asked again; other failures end it."""

    def __init__(self, looker: Looker, interval: float) -> None:
        self._looker = looker
        self._interval = interval
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lonnymq-top", daemon=True)
        self._asked_at: float | None = None
        self._away: tuple[float, str] | None = None
        self.focus = Focus()
        self.picture: Picture | None = None
        self.failure: Exception | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()

    def trouble(self) -> str:
        """Why the picture is old, if it is."""
        now = time.monotonic()
        away, asked_at = self._away, self._asked_at
        if away is not None:
            return f"The database is away for {now - away[0]:.0f} s, trying again: {away[1]}"
        if asked_at is not None and now - asked_at > PATIENCE:
            return f"The database has not answered for {now - asked_at:.0f} s"
        return ""

    def _run(self) -> None:
        pause = 0.0
        while not self._is_over.wait(pause):
            self._asked_at = begin = time.monotonic()
            pause = self._interval
            try:
                self.picture = self._looker.look(self.focus)
                self._away = None
                spent = time.monotonic() - begin
                pause = max(self._interval - spent, spent)  # a slow database is asked less often
            except Exception as error:  # noqa: BLE001 - it is raised where the screen is
                if exit_code(error) != UNREACHABLE:
                    self.failure = error
                    return
                self._away = (self._away[0] if self._away else begin, sentence(error))
            self._asked_at = None


class Screen:
    """Shows the picture and answers the keys, until one of them, or a signal, ends it."""

    def __init__(self, watch: Watch, view: View, console: Console) -> None:
        self._watch = watch
        self._view = view
        self._console = console
        self._glyphs = PLAIN if console.options.ascii_only else UNICODE
        self._picture: Picture | None = None
        self._rows: list[Seen] = []
        self._drawn: object = None

    def show(self) -> None:
        """The terminal is then as it was."""
        from rich.live import Live

        with (
            ending_by_signal(),
            Keyboard(sys.stdin.fileno()) as keyboard,
            Live(console=self._console, screen=True, auto_refresh=False) as live,
            self._watch.running(),
        ):
            while not self._view.is_over:
                if self._watch.failure is not None:
                    raise self._watch.failure
                self._refresh(live)
                for key in keyboard.keys(KEY_SECONDS):
                    self._view = self._view.press(key, len(self._rows), self._room)
                    self._list()

    @property
    def _room(self) -> int:
        return fitting(self._console.height)

    def _refresh(self, live: Live) -> None:
        if self._watch.picture is not self._picture and not (self._view.is_paused and self._picture):
            self._picture = self._watch.picture
            self._list()
        self._console.size = _size()
        self._view = self._view.within(len(self._rows), self._room)
        look = self._picture.look if self._picture else 0
        trouble = self._watch.trouble()
        now = (look, self._view, self._console.size, trouble)
        if now == self._drawn:
            return
        self._drawn = now
        shown = self._rows[self._view.first : self._view.first + self._room]
        self._watch.focus = Focus([seen.name for seen in shown], self._view.prefix)
        width, height = self._console.size
        drawing = draw(
            self._picture,
            self._rows,
            self._view,
            width=width,
            height=height,
            trouble=trouble,
            glyphs=self._glyphs,
        )
        live.update(drawing, refresh=True)

    def _list(self) -> None:
        if self._picture is not None:
            self._rows = listed(self._picture, self._view.sort, self._view.prefix)


def _size() -> ConsoleDimensions:
    """As it is now: what the environment says of it was true when the program began."""
    from rich.console import ConsoleDimensions

    columns, lines = os.get_terminal_size(sys.stdout.fileno())
    return ConsoleDimensions(columns or NO_SIZE[0], lines or NO_SIZE[1])


@contextmanager
def ending_by_signal() -> Iterator[None]:
    """A signal that ends the process lets it put the terminal in order first."""

    def end(number: int, _: object) -> None:
        raise SystemExit(SIGNALLED + number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # it would leave a raw terminal
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
