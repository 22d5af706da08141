"""The orders in which channels can be listed."""

from __future__ import annotations

from enum import StrEnum


class Sort(StrEnum):
    """Largest first, except by name. RATE: messages served per second; FAIR: smallest part of its
    entitlement.
    """

    WAITING = "waiting"
    DUE = "due"
    LEASED = "leased"
    OLDEST = "oldest"
    RATE = "rate"
    FAIR = "fair"
    NAME = "name"
