"""Runs `lonnymq` on a pseudo terminal: reads the screen, presses keys, and checks that the terminal
is restored.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from tests.cli.running import environment

TIMEOUT_S = 20.0
WHOLE_SCREEN, HOME = "\x1b[?1049h", "\x1b[H"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
START = """
import fcntl, runpy, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background programs ignore it
runpy.run_module("{module}", run_name="__main__", alter_sys=True)
"""


class Terminal:
    """Runs `lonnymq` with these arguments. Ctrl-C works as on a real terminal."""

    def __init__(
        self,
        *arguments: str,
        dsn: str | None,
        columns: int = 80,
        lines: int = 24,
        env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_S,
        module: str = "lonnymq",
    ) -> None:
        self._timeout = timeout
        self._ours, theirs = pty.openpty()
        self._theirs = theirs
        self.resize(columns, lines)
        self.before = self.modes()
        self.raw = ""
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", START.format(module=module), *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=environment(dsn, {"TERM": "xterm", "COLUMNS": str(columns), **(env or {})}),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._theirs)
        os.close(self._ours)

    def resize(self, columns: int, lines: int) -> None:
        self.lines = lines
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def shown(self) -> list[str]:
        """The last screen that was drawn completely."""
        for screen in reversed(self.raw.replace("\r", "").split(HOME)):
            lines = [CONTROL.sub("", line).rstrip() for line in screen.split("\n")]
            if len(lines) >= self.lines:
                return lines
        return []

    @property
    def text(self) -> str:
        return "\n".join(self.shown)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            self._read(0.1)
            if condition():
                return
            assert time.monotonic() < deadline, self.raw[-3000:]
            assert self.process.poll() is None, self.raw[-3000:]

    def until_shown(self, *texts: str) -> None:
        self.until(lambda: all(text in self.text for text in texts))

    def end(self) -> int:
        """Wait for the exit code, and check that the terminal is restored."""
        deadline = time.monotonic() + self._timeout
        while self.process.poll() is None:
            self._read(0.05)
            assert time.monotonic() < deadline, self.raw[-3000:]
        while self._read(0):
            pass
        assert self.modes() == self.before
        assert self.raw.count(WHOLE_SCREEN) == self.raw.count("\x1b[?1049l")
        assert self.raw.count("\x1b[?25l") <= self.raw.count("\x1b[?25h")
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        part = os.read(self._ours, 1 << 20)
        self.raw += part.decode(errors="replace")
        return bool(part)
