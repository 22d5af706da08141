"""How names, numbers and times are said to people. Programs get them as they are, with --json."""

from __future__ import annotations

from datetime import UTC, datetime

from lonnymq.cli.failure import BadValue

SECOND, MINUTE, HOUR, DAY, YEAR = 1_000, 60_000, 3_600_000, 86_400_000, 31_536_000_000
_UNITS = ((YEAR, "y"), (DAY, "d"), (HOUR, "h"), (MINUTE, "min"))
_KIB = 1024


def printable(text: str) -> str:
    """On one line, and without what a terminal would obey.

    >>> print(printable("one\\ntwo\\x1b[2J"))
    one\\ntwo\\x1b[2J
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def count(number: int, cap: int | None = None) -> str:
    """
    >>> count(1234), count(1000, cap=1000)
    ('1,234', '1,000+')
    """
    return f"{number:,}{'+' if cap is not None and number >= cap else ''}"


def span(milliseconds: int) -> str:
    """
    >>> span(250), span(90_000), span(180_000), span(7_200_000)
    ('250 ms', '90 s', '3 min', '2 h')
    """
    for unit, name in _UNITS:
        if milliseconds >= 2 * unit:
            return f"{milliseconds // unit:,} {name}"
    return f"{milliseconds // SECOND} s" if milliseconds >= SECOND else f"{milliseconds} ms"


def when(at: int | None, now: int) -> str:
    """
    >>> when(0, 180_000), when(90_000, 0), when(0, 10), when(None, 0)
    ('3 min ago', 'in 90 s', 'now', '')
    """
    if at is None:
        return ""
    if abs(at - now) < SECOND:
        return "now"
    return f"{span(now - at)} ago" if at < now else f"in {span(at - now)}"


def exactly(at: int | None, now: int) -> str:
    """
    >>> exactly(1_893_456_000_000, 1_893_456_180_000)
    '3 min ago (2030-01-01T00:00:00.000Z)'
    """
    if at is None:
        return ""
    try:
        moment = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    except (OverflowError, OSError, ValueError):  # no calendar has it
        return f"{when(at, now)} ({at})"
    return f"{when(at, now)} ({moment.isoformat(timespec='milliseconds').replace('+00:00', 'Z')})"


def due(dequeue_at: int, now: int, *, is_exact: bool = False) -> str:
    """When a message is, or was, to be served; with a time before all times, it goes first.

    >>> due(-1, 0), due(90_000, 0)
    ('first', 'in 90 s')
    """
    if dequeue_at < 0:
        return "first"
    return (exactly if is_exact else when)(dequeue_at, now)


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


def tries(attempts: int, max_attempts: int | None) -> str:
    return str(attempts) if max_attempts is None else f"{attempts}/{max_attempts}"


def gist(error: str | None) -> str:
    """What went wrong, without the way there.

    >>> gist("Traceback (most recent call last):\\n  File ...\\nValueError: no")
    'ValueError: no'
    """
    text = (error or "").strip()
    return text.rpartition("\n")[2] if text.startswith("Traceback ") else text


def moment(text: str) -> datetime:
    """A time as people write it: as it is on the clock on the wall, unless it has a zone."""
    try:
        at = datetime.fromisoformat(text)
        return at if at.tzinfo is not None else at.astimezone()
    except (ValueError, OverflowError):
        raise BadValue(
            f"{text!r} is not a time", "write 2030-12-31T09:00, or with a zone 2030-12-31T09:00+01:00"
        ) from None
