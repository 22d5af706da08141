"""The fair share of a channel, and whether it gets it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

TOLERANCE = 0.25
SLACK = 2
"""Messages. Batches make a difference of a few messages meaningless."""


class Standing(StrEnum):
    """How the rate of a channel compares with its fair share."""

    ABOVE = "above"
    FAIR = "fair"
    BELOW = "below"


def fair_rate(total: float, backlogged: float, others: Iterable[tuple[float, float]]) -> float | None:
    """The fair rate of a backlogged channel of weight 1, one that always has something due; a channel of
    weight 2 is owed twice as much. `backlogged` is the sum of the weights of all backlogged channels.

    `others` are the rate and the weight of each channel that asks for less; the backlogged ones share what
    these leave. None if no channel is backlogged: then each gets all that it asks for.

    >>> fair_rate(100, 4, [])
    25.0
    >>> fair_rate(100, 2, [(10, 1), (10, 1)])
    40.0
    >>> fair_rate(100, 1, [(90, 1)])  # one that takes more than its share counts as backlogged
    50.0
    """
    if backlogged <= 0 or total <= 0:
        return None
    demands = sorted(others, key=lambda one: one[0] / one[1])
    left, sharing = float(total), backlogged + sum(weight for _, weight in demands)
    for demand, weight in demands:
        if demand * sharing > left * weight:
            break
        left -= demand
        sharing -= weight
    return left / sharing


def jain(rates: Iterable[float]) -> float:
    """Jain's index of the rates per weight of the channels that compete: 1 if all are equal, 1/n if one of n
    gets everything. It is 1 if fewer than two compete, or if nothing is served.

    >>> jain([5, 5, 5]), jain([6, 0]), jain([7])
    (1.0, 0.5, 1.0)
    """
    given = list(rates)
    squares = sum(rate * rate for rate in given)
    return sum(given) ** 2 / (len(given) * squares) if squares else 1.0


def standing(served: int, seconds: float, fair: float | None, *, is_backlogged: bool) -> Standing:
    """Only a backlogged channel can be below its fair share.

    >>> str(standing(100, 10, 5.0, is_backlogged=True)), str(standing(10, 10, 5.0, is_backlogged=True))
    ('above', 'below')
    """
    if fair is None:
        return Standing.FAIR
    owed = fair * seconds
    slack = max(SLACK, owed * TOLERANCE)
    if served > owed + slack:
        return Standing.ABOVE
    return Standing.BELOW if is_backlogged and served < owed - slack else Standing.FAIR
