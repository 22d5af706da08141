"""The orders that channels can be shown in."""

from __future__ import annotations

from enum import StrEnum


class Sort(StrEnum):
    """By name, or the most first: rate is what was served a second, fair that against the fair share."""

    WAITING = "waiting"
    DUE = "due"
    LEASED = "leased"
    OLDEST = "oldest"
    RATE = "rate"
    FAIR = "fair"
    NAME = "name"
