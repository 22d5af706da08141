"""Text, numbers, times and errors formatted for people: in the terminal, and in Spark's reports."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

SECOND, MINUTE, HOUR, DAY, YEAR = 1_000, 60_000, 3_600_000, 86_400_000, 31_536_000_000
_KIB = 1024
_LONG_UNITS = ((YEAR, "y"), (DAY, "d"), (HOUR, "h"), (MINUTE, "min"))


def printable(text: str) -> str:
    """Escape line breaks and control characters, which a terminal would obey.

    >>> print(printable("one\\ntwo\\x1b[2J"))
    one\\ntwo\\x1b[2J
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "replace").decode()
        for character in text
    )


def count(number: int, cap: int | None = None) -> str:
    """`cap`: where counting stopped; a number that reached it gets a plus sign.

    >>> count(1234), count(1000, cap=1000)
    ('1,234', '1,000+')
    """
    return f"{number:,}{'+' if cap is not None and number >= cap else ''}"


def plural(number: int, noun: str) -> str:
    """
    >>> plural(1, "message"), plural(2000, "message")
    ('1 message', '2,000 messages')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def significant(value: float, digits: int) -> str:
    """With at least this many significant digits, but without trailing zeros or an exponent.

    >>> significant(1234.5, 3), significant(12.34, 3), significant(0.05, 3), significant(0, 3)
    ('1,234', '12.3', '0.05', '0')
    """
    if not value:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def duration(milliseconds: float, digits: int | None = None) -> str:
    """In the largest unit of which there are two or more. Whole units, rounded down, unless `digits` are
    given.

    >>> duration(250), duration(90_000), duration(180_000), duration(7_200_000)
    ('250 ms', '90 s', '3 min', '2 h')
    >>> duration(0.0512, 2), duration(1234, 2), duration(1234, 3), duration(2e8, 3)
    ('0.051 ms', '1.2 s', '1.23 s', '2.31 d')
    """
    shortest = (SECOND, "s") if milliseconds >= SECOND else (1, "ms")
    size, unit = next((each for each in _LONG_UNITS if milliseconds >= 2 * each[0]), shortest)
    if digits is None:
        return f"{int(milliseconds // size):,} {unit}"
    return f"{significant(milliseconds / size, digits)} {unit}"


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


def error_text(error: Exception) -> str:
    """The error as one line. An error of PostgreSQL comes with its detail and its hint.

    >>> error_text(ValueError("no\\nIs it there?")), error_text(KeyError())
    ('no. Is it there?', 'KeyError')
    """
    diag = getattr(error, "diag", None)
    parts = [getattr(diag, f"message_{part}", None) for part in ("primary", "detail", "hint")]
    text = ". ".join(part for part in parts if part) or str(error)
    return _in_one_line(text) or type(error).__name__


def _in_one_line(text: str) -> str:
    """libpq begins a line for its question whether the server is running, without a full stop before it."""
    return " ".join(re.sub(r"(\w)\s*\n\s*(?=[A-Z])", r"\1. ", text).split())
