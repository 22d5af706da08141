"""All that was read of the channels, look after look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lonnymq.cli.top.fairness import Standing, fair_rate, standing
from lonnymq.cli.top.rates import Reading, Track
from lonnymq.commands import ChannelStatistics, QueueStatistics

COMPETING = (None, "queue limit")
"""What may keep a channel that all the same competes with the others."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A channel, as it was when it was last read."""

    now: ChannelStatistics
    track: Track
    rate: float | None
    is_hungry: bool

    @property
    def name(self) -> str:
        return self.now.channel

    @property
    def state(self) -> str:
        """Why nothing of it is served; if it is paused, that above all."""
        return "paused" if self.now.paused else self.now.blocked_by or "ready"


@dataclass(frozen=True)
class Picture:
    """How the queue stood at a look. It does not change any more."""

    look: int
    at: int
    """The server's time, in Unix milliseconds."""
    queue: QueueStatistics | None
    """None for who may see channels alone."""
    track: Track
    channels: Mapping[str, Seen]
    is_whole: bool
    """All channels have been read at least once."""
    sweep: int
    """How many looks it takes to read all of them."""

    @cached_property
    def total(self) -> float:
        """Messages a second, over all channels. Both ways to know it may lag; neither knows too much."""
        rates = sum(seen.rate for seen in self.channels.values() if seen.rate is not None)
        return max(rates, self.track.rate or 0.0)

    @cached_property
    def hungry(self) -> int:
        return sum(seen.is_hungry for seen in self.channels.values())

    @cached_property
    def fair(self) -> float | None:
        """Messages per second that a hungry channel of weight 1 is owed; not known before all of them are."""
        if not self.is_whole:
            return None
        hungry = sum(seen.now.weight for seen in self.channels.values() if seen.is_hungry)
        others = (
            (seen.rate, seen.now.weight)
            for seen in self.channels.values()
            if seen.rate is not None and not seen.is_hungry
        )
        return fair_rate(self.total, hungry, others)

    def owed(self, seen: Seen) -> float | None:
        """Messages per second, by its weight."""
        return None if self.fair is None else self.fair * seen.now.weight

    def share(self, seen: Seen) -> float | None:
        """Of all that is served."""
        return None if seen.rate is None or not self.total else seen.rate / self.total

    def of_fair(self, seen: Seen) -> float | None:
        """1.0 is exactly fair."""
        owed = self.owed(seen)
        return None if seen.rate is None or not owed else seen.rate / owed

    def standing(self, seen: Seen) -> Standing:
        return standing(seen.track.served, seen.track.seconds, self.owed(seen), is_hungry=seen.is_hungry)


class Book:
    """Channels are read page by page, by name; those that a page should have held, and did not, are gone."""

    def __init__(self) -> None:
        self._channels: dict[str, Seen] = {}
        self._queue = Track()
        self._cursor: str | None = None
        self._begun_at = 0
        self.look = 0
        self.sweep = 0
        """How many looks the last way through all channels took; 0 before its end."""

    @property
    def cursor(self) -> str | None:
        """The name that the next page is to begin after."""
        return self._cursor

    def begin_look(self) -> None:
        self.look += 1
        if self._cursor is None:
            self._begun_at = self.look

    def read(self, channels: Iterable[ChannelStatistics], at: float) -> None:
        for now in channels:
            known = self._channels.get(now.channel)
            is_hungry = now.due > 0 and not now.paused and now.blocked_by in COMPETING
            reading = Reading(self.look, at, now.served, is_hungry)
            track = (known.track if known else Track()).plus(reading)
            self._channels[now.channel] = Seen(now, track, track.rate, track.is_hungry)

    def read_page(self, page: Sequence[ChannelStatistics], at: float, *, is_last: bool) -> None:
        """The page after the cursor, which moves on."""
        first, last = self._cursor or "", None if is_last or not page else page[-1].channel
        there = {now.channel for now in page}
        gone = [
            name
            for name in self._channels
            if name > first and (last is None or name <= last) and name not in there
        ]
        for name in gone:
            del self._channels[name]
        self.read(page, at)
        self._cursor = last
        if last is None:
            self.sweep = self.look - self._begun_at + 1
            self._begun_at = self.look + 1

    def stalest(self, names: Iterable[str], limit: int) -> list[str]:
        """Those not read at this look that were not read for longest."""
        ages = [
            (seen.track.readings[-1].look, name)
            for name in names
            if (seen := self._channels.get(name)) is not None and seen.track.readings[-1].look < self.look
        ]
        return [name for _, name in sorted(ages)[:limit]]

    def picture(self, queue: QueueStatistics | None, at: float, server_time: int) -> Picture:
        if queue is not None:
            self._queue = self._queue.plus(Reading(self.look, at, queue.served))
        return Picture(
            self.look, server_time, queue, self._queue, dict(self._channels), self.sweep > 0, self.sweep
        )
