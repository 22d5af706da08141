"""The orders that channels can be shown in."""

from __future__ import annotations

from enum import StrEnum


class Sort(StrEnum):
    """The most first, but by name; rate is what is served a second, fair who gets least of its fair share."""

    WAITING = "waiting"
    DUE = "due"
    LEASED = "leased"
    OLDEST = "oldest"
    RATE = "rate"
    FAIR = "fair"
    NAME = "name"
