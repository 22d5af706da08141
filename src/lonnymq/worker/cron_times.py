"""When a cron expression ticks: in a time zone, as Unix milliseconds, always forward.

Clocks that are set back or forward are dealt with as Debian's cron does. Where the minute or the hour
begins with `*`, or there are seconds, ticks follow the time that passes: each quarter of an hour,
whatever the clock on the wall shows. Else they are times of day, each once a day: one that is left out
comes as soon as the clock has jumped, one that comes twice counts the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from itertools import islice, takewhile

from lonnymq.client.times import EPOCH, MILLISECOND

FEW = 3  # as many as are tried one after the other


@dataclass(frozen=True)
class Ticks:
    expression: str
    tz: tzinfo

    def following(self, at: int) -> Iterator[int]:
        """Those after a time, ascending. They end where there is none for fifty years."""
        from cronsim import CronSim

        last = at
        try:
            moment = (EPOCH + at * MILLISECOND).astimezone(self.tz)
            for found in CronSim(self.expression, moment):
                tick = (found - EPOCH) // MILLISECOND
                # A time of day that comes twice is found again, in the past, from its second time on.
                if tick > last:
                    yield tick
                    last = tick
        except OverflowError:
            return  # beyond the years that Python counts

    def after(self, at: int) -> int | None:
        return next(self.following(at), None)

    def last(self, after: int, upto: int) -> int | None:
        """The last one after a time, up to another. Found by halves: there may be millions."""
        few = list(takewhile(lambda tick: tick <= upto, islice(self.following(after), FEW)))
        if len(few) < FEW:
            return few[-1] if few else None
        found, none_above = few[-1], upto
        while found < none_above:
            middle = (found + none_above) // 2
            tick = self.after(middle)
            if tick is not None and tick <= upto:
                found = tick
            else:
                none_above = middle
        return found
