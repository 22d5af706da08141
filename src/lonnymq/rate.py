"""Rates such as `20/s`. SQL has the interval between two messages instead, in microseconds."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from lonnymq.errors import InvalidChannelPolicy

Rate = str | float
"""A text such as `20/s`, `100/min` or `1/5min`, or a number of messages per second."""

SECOND = 1_000_000
_UNITS = {
    "ms": SECOND // 1000,
    "s": SECOND,
    "sec": SECOND,
    "second": SECOND,
    "m": 60 * SECOND,
    "min": 60 * SECOND,
    "minute": 60 * SECOND,
    "h": 3600 * SECOND,
    "hour": 3600 * SECOND,
    "d": 86_400 * SECOND,
    "day": 86_400 * SECOND,
}
_LONGEST = 86_400 * SECOND
_SHOWN = ("s", "min", "h", "day")
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*(\d+(?:\.\d+)?)?\s*([a-z]+)\s*)?")
_HINT = "give one such as '20/s', '100/min' or '1/5min', or a number per second; 0 means no limit"


def interval_us(rate: Rate) -> int:
    """The interval of a rate, rounded up, so that no rate is exceeded; 0 means no limit.

    >>> interval_us("20/s"), interval_us("30/s"), interval_us("1/5min"), interval_us(0.5), interval_us(0)
    (50000, 33334, 300000000, 2000000, 0)
    """
    if isinstance(rate, str):
        found = _PATTERN.fullmatch(rate.lower())
        if found is None or found[3] not in {None, *_UNITS}:
            raise InvalidChannelPolicy(f"{rate!r} is not a rate", _HINT)
        number, period = Fraction(found[1]), Fraction(found[2] or 1) * _UNITS[found[3] or "s"]
    elif type(rate) in {int, float} and math.isfinite(rate) and rate >= 0:
        number, period = Fraction(str(rate)), Fraction(SECOND)
    else:
        raise InvalidChannelPolicy(f"{rate!r} is not a rate", _HINT)
    if not number:
        return 0
    interval = period / number
    if not 1 <= interval <= _LONGEST:
        raise InvalidChannelPolicy(
            f"a rate of {rate!r} is out of range", "give one from 1/day to 1000000/s, or 0 for no limit"
        )
    return math.ceil(interval)


def rate_text(interval: int | None) -> str | None:
    """The rate with this interval, as a whole number per second, minute, hour or day if there is one.

    >>> rate_text(50_000), rate_text(33_334), rate_text(600_000), rate_text(300_000_000), rate_text(700_000)
    ('20/s', '30/s', '100/min', '12/h', '1/0.7s')
    >>> rate_text(None) is None
    True
    """
    if not interval:
        return None
    for unit in _SHOWN:
        number = _UNITS[unit] // interval
        if number and math.ceil(Fraction(_UNITS[unit], number)) == interval:
            return f"{number}/{unit}"
        number += 1  # the interval was rounded up
        if math.ceil(Fraction(_UNITS[unit], number)) == interval:
            return f"{number}/{unit}"
    return f"1/{interval / SECOND:.6f}".rstrip("0").rstrip(".") + "s"
