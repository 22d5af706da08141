"""Who gets how much, and who should."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

TOLERANCE = 0.25
SLACK = 2
"""Messages. They come whole, and some at a time, so that a few more or less are chance."""


class Standing(StrEnum):
    """How what a channel got compares with the fair share."""

    ABOVE = "above"
    FAIR = "fair"
    BELOW = "below"


def fair_rate(total: float, hungry: float, modest: Iterable[tuple[float, float]]) -> float | None:
    """What a channel of weight 1 that always has something due is owed, of all that is served: as much as the
    others like it, and one of weight 2 twice as much. `hungry` is the weight of all of these.

    The modest ask for less; of each, the rate that it gets and its weight. What they leave is for the hungry.
    None if nobody is hungry: then all get what they ask for.

    >>> fair_rate(100, 4, [])
    25.0
    >>> fair_rate(100, 2, [(10, 1), (10, 1)])
    40.0
    >>> fair_rate(100, 1, [(90, 1)])  # a channel that takes more than that is owed as much as the hungry
    50.0
    """
    if hungry <= 0 or total <= 0:
        return None
    wishes = sorted(modest, key=lambda one: one[0] / one[1])
    left, sharing = float(total), hungry + sum(weight for _, weight in wishes)
    for wish, weight in wishes:
        if wish * sharing > left * weight:
            break
        left -= wish
        sharing -= weight
    return left / sharing


def standing(served: int, seconds: float, fair: float | None, *, is_hungry: bool) -> Standing:
    """Only who is hungry can get too little.

    >>> str(standing(100, 10, 5.0, is_hungry=True)), str(standing(10, 10, 5.0, is_hungry=True))
    ('above', 'below')
    """
    if fair is None:
        return Standing.FAIR
    owed = fair * seconds
    slack = max(SLACK, owed * TOLERANCE)
    if served > owed + slack:
        return Standing.ABOVE
    return Standing.BELOW if is_hungry and served < owed - slack else Standing.FAIR
