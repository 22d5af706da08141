"""Times, sizes and errors formatted for people. With --json, programs get the plain values."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lonnymq.cli.failure import BadValue
from lonnymq.formatting import DAY, HOUR, MINUTE, SECOND, duration

_KIB = 1024
_UNITS = {"s": SECOND, "m": MINUTE, "min": MINUTE, "h": HOUR, "d": DAY}


def when(at: int | None, now: int) -> str:
    """
    >>> when(0, 180_000), when(90_000, 0), when(0, 10), when(None, 0)
    ('3 min ago', 'in 90 s', 'now', '')
    """
    if at is None:
        return ""
    if abs(at - now) < SECOND:
        return "now"
    return f"{duration(now - at)} ago" if at < now else f"in {duration(at - now)}"


def exactly(at: int | None, now: int) -> str:
    """
    >>> exactly(1_893_456_000_000, 1_893_456_180_000)
    '3 min ago (2030-01-01T00:00:00.000Z)'
    """
    if at is None:
        return ""
    try:
        moment = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    except (OverflowError, OSError, ValueError):  # too far away for datetime
        return f"{when(at, now)} ({at})"
    return f"{when(at, now)} ({moment.isoformat(timespec='milliseconds').replace('+00:00', 'Z')})"


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


def size(octets: int) -> str:
    """
    >>> size(7), size(2048), size(3_000_000)
    ('7 B', '2 KiB', '3 MiB')
    """
    amount = float(octets)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < _KIB:
            return f"{amount:.0f} {unit}"
        amount /= _KIB
    return f"{amount:,.0f} TiB"


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
