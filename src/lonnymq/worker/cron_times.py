"""The times that a cron expression names, in a time zone, as ascending Unix milliseconds.

When clocks are set forward or back, times are chosen as in Debian's cron. If the minute or the hour begins
with `*`, or the expression has seconds, times follow elapsed time: every quarter of an hour, whatever the
wall clock shows. Other expressions name times of day, and each comes once per day: a time that the clock
skips comes right after the jump, and a time that comes twice counts the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from lonnymq.client.times import EPOCH, MILLISECOND

TRIED_IN_ORDER = 3  # how many of the times to read one by one before searching by bisection


def zone_name(tz: tzinfo) -> str:
    """The name of a time zone in the database: Europe/Berlin, UTC, or UTC+02:00.

    >>> zone_name(UTC), zone_name(ZoneInfo("Europe/Berlin")), zone_name(timezone(timedelta(hours=2)))
    ('UTC', 'Europe/Berlin', 'UTC+02:00')
    """
    return str(tz)


def zone_named(name: str | None) -> tzinfo | None:
    """The time zone with this name; None if it is not known here.

    >>> str(zone_named("Europe/Berlin")), str(zone_named("UTC-03:30")), zone_named("Mars")
    ('Europe/Berlin', 'UTC-03:30', None)
    """
    if name == "UTC":
        return UTC
    try:
        if name is not None and name.startswith(("UTC+", "UTC-")):
            return datetime.strptime(name.removeprefix("UTC"), "%z").tzinfo
        return None if name is None else ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return None


@dataclass(frozen=True)
class CronTimes:
    expression: str
    tz: tzinfo

    def following(self, at: int) -> Iterator[int]:
        """The times after `at`, ascending. Stops if the next one is more than fifty years away."""
        from cronsim import CronSim

        last = at
        try:
            start = (EPOCH + at * MILLISECOND).astimezone(self.tz)
            for found in CronSim(self.expression, start):
                time = (found - EPOCH) // MILLISECOND
                # In an hour that comes twice, CronSim also yields times of the first pass, which are past.
                if time > last:
                    yield time
                    last = time
        except OverflowError:
            return  # beyond the years that datetime supports

    def after(self, at: int) -> int | None:
        return next(self.following(at), None)

    def last(self, after: int, upto: int) -> int | None:
        """The last time that is later than `after` and not later than `upto`. There may be millions, so it is
        found by bisection.
        """
        first_few = list(takewhile(lambda time: time <= upto, islice(self.following(after), TRIED_IN_ORDER)))
        if len(first_few) < TRIED_IN_ORDER:
            return first_few[-1] if first_few else None
        found, none_above = first_few[-1], upto
        while found < none_above:
            middle = (found + none_above) // 2
            time = self.after(middle)
            if time is not None and time <= upto:
                found = time
            else:
                none_above = middle
        return found
