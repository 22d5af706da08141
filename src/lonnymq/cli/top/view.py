"""What part of a snapshot is shown, and how keys change that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lonnymq.cli.top.sort import Sort
from lonnymq.monitor.order import Order, in_order
from lonnymq.monitor.state import ChannelState, QueueSnapshot

SORT_KEYS = {
    "w": Sort.WAITING,
    "d": Sort.DUE,
    "l": Sort.LEASED,
    "o": Sort.OLDEST,
    "r": Sort.RATE,
    "f": Sort.FAIR,
    "n": Sort.NAME,
}


_ORDERS = {
    Sort.WAITING: Order.BACKLOG,
    Sort.DUE: Order.DUE,
    Sort.LEASED: Order.LEASED,
    Sort.OLDEST: Order.OLDEST,
    Sort.RATE: Order.RATE,
    Sort.FAIR: Order.STARVED,
    Sort.NAME: Order.NAME,
}


def sorted_channels(snapshot: QueueSnapshot, sort: Sort, prefix: str = "") -> list[ChannelState]:
    """The channels in display order; equal ones by rate, then by name."""
    return in_order(snapshot, _ORDERS[sort], prefix)


@dataclass(frozen=True)
class ViewState:
    """`first` is the index of the top row. While a prefix is being typed, keys are its letters."""

    sort: Sort = Sort.WAITING
    prefix: str = ""
    first: int = 0
    is_paused: bool = False
    shows_help: bool = False
    is_typing: bool = False
    is_over: bool = False

    def within(self, rows: int, rows_that_fit: int) -> ViewState:
        """Not scrolled past the end."""
        return replace(self, first=max(0, min(self.first, rows - rows_that_fit)))

    def press(self, key: str, rows: int, rows_that_fit: int) -> ViewState:
        if self.is_typing:
            return self._type(key)
        if key in SORT_KEYS:
            return replace(self, sort=SORT_KEYS[key], first=0)
        moves = {
            "up": self.first - 1,
            "down": self.first + 1,
            "page up": self.first - rows_that_fit,
            "page down": self.first + rows_that_fit,
            " ": self.first + rows_that_fit,
            "home": 0,
            "end": rows,
        }
        if key in moves:
            return replace(self, first=moves[key]).within(rows, rows_that_fit)
        sorts = list(Sort)
        changes: dict[str, dict[str, Any]] = {
            "q": {"is_over": True},
            "s": {"sort": sorts[(sorts.index(self.sort) + 1) % len(sorts)], "first": 0},
            "/": {"is_typing": True},
            "p": {"is_paused": not self.is_paused},
            "?": {"shows_help": not self.shows_help},
            "escape": {"prefix": "", "first": 0, "shows_help": False},
        }
        return replace(self, **changes.get(key, {}))

    def _type(self, key: str) -> ViewState:
        match key:
            case "enter":
                return replace(self, is_typing=False)
            case "escape":
                return replace(self, is_typing=False, prefix="", first=0)
            case "backspace":
                return replace(self, prefix=self.prefix[:-1], first=0)
            case _:
                return replace(self, prefix=self.prefix + key, first=0) if len(key) == 1 else self
