"""How far a simulation of the actual settings is from what was recorded."""

from __future__ import annotations

import math

from lonnymq.simulation.waits import Histogram

NEGLIGIBLE_MS = 10.0
"""A difference of this many milliseconds or less does not count as an error: clocks, wake-ups and the network
cause more than that.
"""
MOST_ERROR = 0.25
LEAST_MESSAGES = 20


def relative_error(simulated_ms: float, recorded_ms: float) -> float:
    """
    >>> relative_error(130, 100), relative_error(9, 0), relative_error(1000, 0)
    (0.3, 0.0, inf)
    """
    off = abs(simulated_ms - recorded_ms)
    if off <= NEGLIGIBLE_MS:
        return 0.0
    return off / recorded_ms if recorded_ms else math.inf


def distance(simulated: Histogram, recorded: Histogram) -> float:
    """One number for p50 and p95, to compare calibrations: 0 if both are the same."""
    return sum(
        min(
            3.0,
            abs(math.log((simulated.quantile(q) + NEGLIGIBLE_MS) / (recorded.quantile(q) + NEGLIGIBLE_MS))),
        )
        for q in (0.5, 0.95)
    )
