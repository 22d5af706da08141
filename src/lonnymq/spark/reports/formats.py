"""Names and numbers as texts for people, the same in the terminal and on the page."""

from __future__ import annotations

from datetime import UTC, datetime

NONE = "-"
LONGEST_NAME = 60


def name(channel: str, longest: int = LONGEST_NAME) -> str:
    r"""A channel's name, with invisible characters and terminal control codes escaped.

    >>> name("a\x1b[31m\u202eb")
    'a\\x1b[31m\\u202eb'
    """
    text = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "replace").decode() for char in channel
    )
    return text if len(text) <= longest else text[: longest - 1] + "…"


def duration(milliseconds: float | None) -> str:
    """
    >>> duration(0.25), duration(12), duration(1234), duration(90_000), duration(7_200_000), duration(2e8)
    ('0.25 ms', '12 ms', '1.23 s', '90 s', '2 h', '2.31 d')
    """
    if milliseconds is None:
        return NONE
    for size, unit, upto in ((1, "ms", 1_000), (1_000, "s", 120_000), (60_000, "min", 7_200_000)):
        if milliseconds < upto:
            return f"{_three(milliseconds / size)} {unit}"
    if milliseconds < 48 * 3_600_000:
        return f"{_three(milliseconds / 3_600_000)} h"
    return f"{_three(milliseconds / 86_400_000)} d"


def count(number: int) -> str:
    """
    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,}"


def rate(per_second: float | None) -> str:
    """
    >>> rate(1234.5), rate(12.34), rate(0.05), rate(None)
    ('1,234', '12.3', '0.05', '-')
    """
    return NONE if per_second is None else _three(per_second)


def percent(part: float | None) -> str:
    """
    >>> percent(0.5), percent(1 / 3), percent(0.00012), percent(None)
    ('50 %', '33.3 %', '0.012 %', '-')
    """
    return NONE if part is None else f"{_three(part * 100)} %"


def index(value: float | None) -> str:
    """
    >>> index(0.98765)
    '0.988'
    """
    return NONE if value is None else f"{value:.3f}"


def time(at: datetime) -> str:
    """
    >>> time(datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2030-01-02 03:04:05 UTC'
    """
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _three(value: float) -> str:
    """With three significant digits and no exponent."""
    size = abs(value)
    for least, digits in ((100, 0), (10, 1), (1, 2), (0.1, 3), (0.01, 4)):
        if size >= least:
            text = f"{value:,.{digits}f}"
            return text.rstrip("0").rstrip(".") if digits else text
    return f"{value:.5f}".rstrip("0").rstrip(".") if size else "0"
