"""How long messages waited, as a histogram. Histograms of parts are added up, which percentiles cannot be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

GROWTH = 1.02
"""Each bin is 2 % wider than the one before, so that a percentile is exact to 1 %."""
NEVER = 1 << 20
"""The bin of messages that were not served at all."""
_LOG = math.log(GROWTH)


def bin_of(wait_ms: float) -> int:
    """
    >>> bin_of(0), bin_of(0.9), bin_of(1), bin_of(1000)
    (0, 0, 1, 349)
    """
    return 0 if wait_ms < 1 else 1 + int(math.log(wait_ms) / _LOG)


def middle_of(number: int) -> float:
    """
    >>> middle_of(0), round(middle_of(349)), middle_of(NEVER)
    (0.0, 993, inf)
    """
    if number == NEVER:
        return math.inf
    return 0.0 if number == 0 else GROWTH ** (number - 0.5)


class Histogram(Counter[int]):
    """How many messages are in each bin."""

    @classmethod
    def of(cls, waits_ms: Iterable[float | None]) -> Histogram:
        """None: it was never served."""
        return cls(NEVER if wait is None else bin_of(wait) for wait in waits_ms)

    def quantile(self, share: float) -> float:
        """In milliseconds; infinite if fewer than this share were served.

        >>> Histogram.of([0, 0, 0, 1000]).quantile(0.5), round(Histogram.of([10, 1000]).quantile(0.95))
        (0.0, 993)
        """
        rank = max(1, math.ceil(round(share * self.total(), 9)))
        for number in sorted(self):
            rank -= self[number]
            if rank <= 0:
                return middle_of(number)
        return 0.0
