"""Times and durations of Python, as the Unix milliseconds that SQL functions take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from lonnymq.errors import InvalidTime
from lonnymq.message_options import Duration
from lonnymq.statement import Command, Row, Statement, command

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
FIRST = -1
"""A time before all others: such a message is served first within its channel and priority."""


@command
class ServerClock(Command[int]):
    """Read the database's clock, which is the only one that the queue uses."""

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


def optional_milliseconds(duration: Duration | None) -> int | None:
    return None if duration is None else milliseconds(duration)


def waiting(duration: Duration) -> int:
    """Like milliseconds, but not negative."""
    if (wait_ms := milliseconds(duration)) < 0:
        raise InvalidTime(f"{duration!r} is negative", "give 0 or more seconds")
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
            f"{at.isoformat()} has no time zone",
            "use an aware datetime, such as datetime.now(UTC)",
        )
    return (at - EPOCH) // MILLISECOND


def schedule(run_at: datetime | None, delay: Duration | None) -> tuple[int | None, int | None]:
    """Return `dequeue_at` and `delay_ms`. At most one of them may be given; without either, it is due now.

    >>> schedule(None, 1.5)
    (None, 1500)
    """
    if run_at is not None and delay is not None:
        raise InvalidTime("run_at and delay are both given", "give one of them")
    return None if run_at is None else moment(run_at), None if delay is None else waiting(delay)
