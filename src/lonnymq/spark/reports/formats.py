"""Names and numbers as texts for people, the same in the terminal and on the page."""

from __future__ import annotations

from datetime import UTC, datetime

from lonnymq.formatting import count, printable, significant
from lonnymq.formatting import duration as format_duration

__all__ = ["NONE", "count", "duration", "index", "name", "percent", "rate", "time"]

NONE = "-"
LONGEST_NAME = 60
DIGITS = 3


def name(channel: str, longest: int = LONGEST_NAME) -> str:
    r"""A channel's name, with invisible characters and terminal control codes escaped.

    >>> name("a\x1b[31m\u202eb")
    'a\\x1b[31m\\u202eb'
    """
    text = printable(channel)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def duration(milliseconds: float | None) -> str:
    """
    >>> duration(0.25), duration(12), duration(1234), duration(90_000), duration(7_200_000), duration(2e8)
    ('0.25 ms', '12 ms', '1.23 s', '90 s', '2 h', '2.31 d')
    """
    if milliseconds is None:
        return NONE
    return format_duration(milliseconds, DIGITS)


def rate(per_second: float | None) -> str:
    """
    >>> rate(1234.5), rate(12.34), rate(0.05), rate(None)
    ('1,234', '12.3', '0.05', '-')
    """
    return NONE if per_second is None else significant(per_second, DIGITS)


def percent(part: float | None) -> str:
    """
    >>> percent(0.5), percent(1 / 3), percent(0.00012), percent(None)
    ('50 %', '33.3 %', '0.012 %', '-')
    """
    return NONE if part is None else f"{significant(part * 100, DIGITS)} %"


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
