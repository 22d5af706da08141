"""Whether a channel gets what it is entitled to: see `lonnymq.rules.entitlement`."""

from __future__ import annotations

from enum import StrEnum

TOLERANCE = 0.25
SLACK = 2
"""Messages. Batches make a difference of a few messages meaningless."""


class Standing(StrEnum):
    """How the rate of a channel compares with its entitlement."""

    ABOVE = "above"
    FAIR = "fair"
    BELOW = "below"


def standing(served: int, seconds: float, owed_rate: float | None, *, can_lack: bool) -> Standing:
    """`owed_rate` is what a channel is entitled to, per second; None for one that its own limit holds back.
    `can_lack`: it has waited long enough to be below it.

    >>> str(standing(100, 10, 5.0, can_lack=True)), str(standing(10, 10, 5.0, can_lack=True))
    ('above', 'below')
    """
    if owed_rate is None:
        return Standing.FAIR
    owed = owed_rate * seconds
    slack = max(SLACK, owed * TOLERANCE)
    if served > owed + slack:
        return Standing.ABOVE
    return Standing.BELOW if can_lack and served < owed - slack else Standing.FAIR
