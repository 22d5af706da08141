"""Limits, attempts and errors formatted for people, and what people type. With --json, programs get the plain
values.
"""

from __future__ import annotations

import re
from datetime import datetime

from lonnymq.cli.failure import BadValue
from lonnymq.formatting import DAY, HOUR, MINUTE, SECOND, exactly, when

_UNITS = {"s": SECOND, "m": MINUTE, "min": MINUTE, "h": HOUR, "d": DAY}


def due(dequeue_at: int, now: int, *, is_exact: bool = False) -> str:
    """When a message becomes, or became, due. A negative time means ahead of all others of its priority.

    >>> due(-1, 0), due(90_000, 0)
    ('first', 'in 90 s')
    """
    if dequeue_at < 0:
        return "first"
    return (exactly if is_exact else when)(dequeue_at, now)


def limit_text(limit: float | str | None) -> str:
    """
    >>> limit_text(None), limit_text(1000), limit_text(2.5), limit_text("20/s")
    ('no limit', '1,000', '2.5', '20/s')
    """
    if limit is None or isinstance(limit, str):
        return limit or "no limit"
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def attempts_of(attempts: int, max_attempts: int | None) -> str:
    return str(attempts) if max_attempts is None else f"{attempts}/{max_attempts}"


def gist(error: str | None) -> str:
    """The last line of a traceback; other errors as they are.

    >>> gist("Traceback (most recent call last):\\n  File ...\\nValueError: no")
    'ValueError: no'
    """
    text = (error or "").strip()
    return text.rpartition("\n")[2] if text.startswith("Traceback ") else text


def seconds(text: str) -> float:
    """Parse a duration that somebody typed.

    >>> seconds("90"), seconds("1.5 s"), seconds("10m"), seconds("2h")
    (90.0, 1.5, 600.0, 7200.0)
    """
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)\s*", text, re.ASCII)
    if found is None or (found[2] or "s") not in _UNITS:
        raise BadValue(f"{text!r} is not a duration", "write 90s, 10m, 2h or 1d, or a number of seconds")
    return float(found[1]) * _UNITS[found[2] or "s"] / SECOND


def moment(text: str) -> datetime:
    """Parse a time that somebody typed. Without a time zone it is local time."""
    try:
        at = datetime.fromisoformat(text)
        return at if at.tzinfo is not None else at.astimezone()
    except (ValueError, OverflowError):
        raise BadValue(
            f"{text!r} is not a time", "write 2030-12-31T09:00, or with a zone 2030-12-31T09:00+01:00"
        ) from None
