"""Numbers as a row of small bars."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.:-=+*#"


def sparkline(values: Sequence[float | None], ramp: str = BLOCKS) -> str:
    """Scaled to the largest value. The lowest bar is zero; a blank is a value that is not known.

    >>> sparkline([None, 0, 1, 4, 8])
    ' ▁▂▅█'
    """
    top = max((value for value in values if value is not None), default=0.0)
    return "".join(" " if value is None else ramp[_height(value, top, len(ramp) - 1)] for value in values)


def _height(value: float, top: float, highest: int) -> int:
    if value <= 0 or top <= 0:
        return 0
    return max(1, round(value / top * highest))
