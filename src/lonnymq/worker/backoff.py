"""How long to wait before the next attempt."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from lonnymq.client.times import milliseconds
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import Duration

FACTOR_MIN = 1


@dataclass(frozen=True)
class Backoff:
    """Delays that grow by `factor` with each attempt, from `first` up to `longest`. Each is shortened at
    random, by up to a half, so that messages that failed together do not come back together.

    >>> round(Backoff(first=10, factor=3, longest=60).without_jitter(2))
    30
    """

    first: Duration = 1
    factor: float = 2
    longest: Duration = 600

    def __post_init__(self) -> None:
        if not (0 <= milliseconds(self.first) <= milliseconds(self.longest) and self.factor >= FACTOR_MIN):
            raise InvalidArgument(
                f"{self} does not grow",
                "give a first delay of 0 or more, a factor of 1 or more, and a longest delay of at least the "
                "first",
            )

    def __call__(self, attempt: int) -> float:
        """Seconds to wait after this attempt; 1 is the first."""
        return self.without_jitter(attempt) * random.uniform(0.5, 1)  # noqa: S311 - nothing secret

    def without_jitter(self, attempt: int) -> float:
        """The longest possible delay after this attempt, in seconds."""
        longest = milliseconds(self.longest) / 1000
        try:
            return min(longest, milliseconds(self.first) / 1000 * self.factor ** (attempt - 1))
        except OverflowError:
            return longest


Delays = Backoff | Duration | Callable[[int], Duration]
"""A Backoff, the same delay after each attempt, or a function of the attempt's number."""


def delay_ms(delays: Delays, attempt: int) -> int:
    return max(0, milliseconds(delays(attempt) if callable(delays) else delays))
