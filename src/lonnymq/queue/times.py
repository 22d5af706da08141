"""When a message is due: a time, a delay or a priority, as the one number that the queue sorts by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lonnymq.errors import InvalidTime
from lonnymq.statement import Command, Row, Statement

Duration = timedelta | float
"""A timedelta, or seconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
MOST_URGENT = 2**53
"""As far from the epoch as times may be: the SQL functions refuse more."""


@dataclass(frozen=True)
class ServerClock(Command[int]):
    """The database's clock: the only one that delays are counted by."""

    function = "clock_timestamp"
    is_harmless = True

    def statement(self, schema: str) -> Statement:  # noqa: ARG002
        return Statement("SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT", ())

    def decode(self, rows: Sequence[Row]) -> int:
        return int(rows[0][0])


def milliseconds(duration: Duration) -> int:
    """
    >>> milliseconds(1.5), milliseconds(timedelta(minutes=1))
    (1500, 60000)
    """
    if isinstance(duration, timedelta):
        return duration // MILLISECOND
    if type(duration) not in {int, float} or not math.isfinite(duration):
        raise InvalidTime(f"{duration!r} is not a duration", "give a number of seconds or a timedelta")
    return round(duration * 1000)


def waiting(duration: Duration) -> int:
    """As milliseconds, of a time to wait."""
    if (wait_ms := milliseconds(duration)) < 0:
        raise InvalidTime(f"{wait_ms} ms lie in the past", "give 0 or more")
    return wait_ms


def moment(at: datetime) -> int:
    """
    >>> moment(datetime(2030, 1, 1, tzinfo=UTC))
    1893456000000
    """
    if not isinstance(at, datetime):
        raise InvalidTime(f"{at!r} is not a time", "use an aware datetime, such as datetime.now(UTC)")
    if at.tzinfo is None:
        raise InvalidTime(
            f"{at.isoformat()} could be any of 24 hours, as it has no time zone",
            "use an aware datetime, such as datetime.now(UTC)",
        )
    return (at - EPOCH) // MILLISECOND


def dequeue_at(
    run_at: datetime | None = None,
    delay: Duration | None = None,
    priority: int | None = None,
    now: int | None = None,
) -> int | None:
    """The number. `now` is needed for a delay. None: at once, in the order of arrival.

    >>> dequeue_at(priority=5)
    -5
    """
    if sum(given is not None for given in (run_at, delay, priority)) > 1:
        raise InvalidTime(
            "of run_at, delay and priority, one says it all: a priority is a time long past, which sorts "
            "first, so it cannot be one to come as well",
            "give one of them; to be urgent later, reschedule then",
        )
    if priority is not None:
        if type(priority) is not int or not 1 <= priority <= MOST_URGENT:
            raise InvalidTime(
                f"{priority!r} is not a priority",
                f"give 1, or more for what is more urgent, up to {MOST_URGENT:,}",
            )
        return -priority
    if delay is not None:
        if now is None:
            raise TypeError("a delay counts from now")
        return now + waiting(delay)
    return None if run_at is None else moment(run_at)
