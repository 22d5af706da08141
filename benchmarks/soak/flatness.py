"""Whether a series of samples stays flat after its warm-up.

The trend is the Theil-Sen slope of the last two thirds: the median of the slopes between all pairs of
samples, which a few high values do not change. A series grows if, by its trend, it gains more than a share of
its level during those two thirds, and more than an amount that matters.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

WARM_UP_SHARE = 1 / 3
GROWTH_MAX = 0.25
AMOUNTS = {"MB": 2.0, "ms": 2.0, "s": 5.0, "rows": 5000.0, "buffers": 5.0, "bytes": 20.0}
"""Growth below this is not looked at, by unit."""
SAMPLES_MIN = 4


@dataclass(frozen=True)
class Trend:
    level: float
    """The median after the warm-up."""
    growth: float
    """By the trend, from the end of the warm-up to the end."""
    unit: str
    is_flat: bool

    @property
    def share(self) -> float:
        return self.growth / self.level if self.level else 0.0


def unit_of(name: str) -> str:
    if name.startswith("buffers"):
        return "buffers"
    if name.startswith("dead rows") or name in {"backlog", "dead letters"}:
        return "rows"
    return name.rpartition(" ")[2]


def trend(name: str, times: Sequence[float], values: Sequence[float]) -> Trend | None:
    """None if there are too few samples after the warm-up to say anything."""
    if not times:
        return None
    end = times[0] + (times[-1] - times[0]) * WARM_UP_SHARE
    late = [(at, value) for at, value in zip(times, values, strict=True) if at >= end]
    if len(late) < SAMPLES_MIN:
        return None
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in combinations(late, 2)
        if later[0] > earlier[0]
    ]
    level = statistics.median(value for _, value in late)
    growth = statistics.median(slopes) * (late[-1][0] - late[0][0])
    unit = unit_of(name)
    return Trend(level, growth, unit, growth <= max(GROWTH_MAX * level, AMOUNTS[unit]))


def is_judged(name: str) -> bool:
    """The history grows for as long as it is kept, so its size is shown and not judged."""
    return not name.startswith("history of ")
