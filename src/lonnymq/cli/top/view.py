"""What of the picture is shown, and how keys change that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lonnymq.cli.top.sort import Sort
from lonnymq.cli.top.state import Picture, Seen

SORT_KEYS = {
    "w": Sort.WAITING,
    "d": Sort.DUE,
    "l": Sort.LEASED,
    "o": Sort.OLDEST,
    "r": Sort.RATE,
    "f": Sort.FAIR,
    "n": Sort.NAME,
}


def _lack(seen: Seen) -> tuple[bool, float]:
    """First the hungry that get least for their weight: the same rate per weight is fair to all."""
    rate = (seen.rate or 0.0) / seen.now.weight
    return seen.is_hungry, -rate if seen.is_hungry else rate


_MOST: dict[Sort, Callable[[Seen], Any]] = {
    Sort.WAITING: lambda seen: seen.now.waiting,
    Sort.DUE: lambda seen: seen.now.due,
    Sort.LEASED: lambda seen: seen.now.leased,
    Sort.OLDEST: lambda seen: -1 if seen.now.oldest_due_ms is None else seen.now.oldest_due_ms,
    Sort.RATE: lambda seen: seen.rate or 0.0,
    Sort.FAIR: _lack,
}


def listed(picture: Picture, sort: Sort, prefix: str = "") -> list[Seen]:
    """The channels in the order they are shown; among equals, who gets more, and then by name."""
    found = [seen for seen in picture.channels.values() if seen.name.startswith(prefix)]
    found.sort(key=lambda seen: seen.name)
    most = _MOST.get(sort)
    if most is not None:
        found.sort(key=lambda seen: (most(seen), seen.rate or 0.0), reverse=True)
    return found


@dataclass(frozen=True)
class View:
    """`first` is the number of the row on top. While a prefix is typed, keys are its letters."""

    sort: Sort = Sort.WAITING
    prefix: str = ""
    first: int = 0
    is_paused: bool = False
    is_helping: bool = False
    is_typing: bool = False
    is_over: bool = False

    def within(self, rows: int, fitting: int) -> View:
        """Not scrolled beyond the end."""
        return replace(self, first=max(0, min(self.first, rows - fitting)))

    def press(self, key: str, rows: int, fitting: int) -> View:
        if self.is_typing:
            return self._type(key)
        if key in SORT_KEYS:
            return replace(self, sort=SORT_KEYS[key], first=0)
        moves = {
            "up": self.first - 1,
            "down": self.first + 1,
            "page up": self.first - fitting,
            "page down": self.first + fitting,
            " ": self.first + fitting,
            "home": 0,
            "end": rows,
        }
        if key in moves:
            return replace(self, first=moves[key]).within(rows, fitting)
        sorts = list(Sort)
        changes: dict[str, dict[str, Any]] = {
            "q": {"is_over": True},
            "s": {"sort": sorts[(sorts.index(self.sort) + 1) % len(sorts)], "first": 0},
            "/": {"is_typing": True},
            "p": {"is_paused": not self.is_paused},
            "?": {"is_helping": not self.is_helping},
            "escape": {"prefix": "", "first": 0, "is_helping": False},
        }
        return replace(self, **changes.get(key, {}))

    def _type(self, key: str) -> View:
        match key:
            case "enter":
                return replace(self, is_typing=False)
            case "escape":
                return replace(self, is_typing=False, prefix="", first=0)
            case "backspace":
                return replace(self, prefix=self.prefix[:-1], first=0)
            case _:
                return replace(self, prefix=self.prefix + key, first=0) if len(key) == 1 else self
