"""The quantile of a list of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

Number = TypeVar("Number", int, float)


def quantile(values: Sequence[Number], share: float) -> Number:
    """The smallest of the values that is not exceeded by this share of them (nearest rank).

    >>> quantile([4, 1, 3, 2], 0.5), quantile([4, 1, 3, 2], 0.99)
    (2, 4)
    """
    rank = math.ceil(round(share * len(values), 9))  # rounded: 0.07 * 100 is a little more than 7
    return sorted(values)[max(0, rank - 1)]
