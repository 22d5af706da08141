"""Text, numbers and durations formatted for people: in the terminal, and in Spark's reports."""

from __future__ import annotations

import math

SECOND, MINUTE, HOUR, DAY, YEAR = 1_000, 60_000, 3_600_000, 86_400_000, 31_536_000_000
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
