"""Reads single keys from a terminal."""

from __future__ import annotations

import codecs
import os
import select
import termios
import tty
from types import TracebackType
from typing import Any, Self

_NAMES = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}
_SEQUENCES = {
    "A": "up",
    "B": "down",
    "H": "home",
    "F": "end",
    "1~": "home",
    "7~": "home",
    "4~": "end",
    "8~": "end",
    "5~": "page up",
    "6~": "page down",
}
_ESCAPE = "\x1b"
_INTRODUCERS = ("[", "O")
_END_OF_SEQUENCE = range(0x40, 0x7F)


class Decoder:
    """Turns the bytes that a terminal sends into names of keys. An escape sequence may arrive in parts."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("ignore")
        self._pending = ""

    def feed(self, sent: bytes) -> list[str]:
        self._pending += self._text.decode(sent)
        keys = []
        while self._pending:
            key, length = _first(self._pending)
            if not length:
                break
            self._pending = self._pending[length:]
            if key:
                keys.append(key)
        return keys

    def flush(self) -> list[str]:
        """Nothing more arrived: a pending escape is the Escape key and not the start of a sequence."""
        keys = ["escape"] if self._pending else []
        self._pending = ""
        return keys


def _first(text: str) -> tuple[str, int]:
    """The first key and its length: 0 if it is incomplete. The key is empty for one that has no
    meaning here.
    """
    if text[0] != _ESCAPE:
        key = _NAMES.get(text[0], text[0])
        return key if key.isprintable() else "", 1
    if len(text) == 1:
        return "", 0
    if text[1] not in _INTRODUCERS:
        return "escape", 1
    for position in range(2, len(text)):
        if ord(text[position]) in _END_OF_SEQUENCE:
            return _SEQUENCES.get(text[2 : position + 1], ""), position + 1
    return "", 0


class Keyboard:
    """While entered, keys are read at once and not echoed. Restores the terminal on exit."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = Decoder()
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def keys(self, seconds: float) -> list[str]:
        """The keys pressed within this time."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return self._decoder.flush()
        sent = os.read(self._descriptor, 1024)
        return self._decoder.feed(sent) if sent else ["q"]  # the terminal is gone
