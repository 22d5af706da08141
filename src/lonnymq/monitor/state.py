"""The channels, as the polls have read them so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lonnymq.commands import ChannelStatistics, QueueStatistics
from lonnymq.monitor.fairness import Standing, standing
from lonnymq.monitor.noise import Load, noisy_channels
from lonnymq.monitor.rates import POLLS_COMPARED, Sample, ServedHistory
from lonnymq.rate import SECOND, interval_us
from lonnymq.rules.entitlement import (
    ENOUGH_MESSAGES,
    BoundBy,
    Claim,
    Entitlement,
    Level,
    jain,
    water_level,
)

COMPETING = (None, "queue limit")
"""A channel in one of these states can compete with the others: no limit of its own holds it back now."""
SHORT_WAIT_MS = 2_000
"""A channel whose oldest due message has waited for less is not below its entitlement: it may have had
nothing due between two polls.
"""


@dataclass(frozen=True, slots=True)
class ChannelState:
    """A channel when it was last read."""

    stats: ChannelStatistics
    history: ServedHistory
    rate: float | None
    is_backlogged: bool

    @property
    def name(self) -> str:
        return self.stats.channel

    @property
    def state(self) -> str:
        """`ready`, or why none of its messages is served. `paused` goes before any other reason."""
        return "paused" if self.stats.paused else self.stats.blocked_by or "ready"

    @property
    def is_waiting(self) -> bool:
        """Messages are due, and no pause or limit of its own holds them back."""
        return competes(self.stats)

    @property
    def claim(self) -> Claim:
        """What it asks for, in messages per second over the last polls.

        A channel that was not backlogged at each poll got all that it asked for, or all that its limits
        allowed. Between two messages that its rate allows, a channel can look as if nothing held it back.
        """
        rate = self.rate or 0.0
        if not self.is_backlogged:
            return Claim(rate, rate, weight=self.stats.weight)
        seconds = self.history.seconds
        waiting = self.stats.due / seconds if seconds else math.inf
        limit = SECOND / interval_us(self.stats.rate) if self.stats.rate else math.inf
        return Claim(rate, rate + waiting, limit, self.stats.weight)

    @property
    def load(self) -> Load:
        stats = self.stats
        is_waiting = competes(stats)
        messages = stats.leased + stats.due if is_waiting else stats.leased
        return Load(stats.channel, messages, stats.weight, is_waiting)


def competes(stats: ChannelStatistics) -> bool:
    """Whether the channel could be served now, but for the others. One that competes at every poll is
    backlogged.
    """
    return stats.due > 0 and not stats.paused and stats.blocked_by in COMPETING


@dataclass(frozen=True)
class QueueSnapshot:
    """The queue at one poll. Immutable."""

    poll: int
    at: int
    """The server's time, in Unix milliseconds."""
    queue: QueueStatistics | None
    """None for a login that may see only some channels."""
    history: ServedHistory
    channels: Mapping[str, ChannelState]
    is_complete: bool
    """All channels have been read at least once."""
    polls_per_pass: int
    """How many polls it takes to read all channels once."""

    @cached_property
    def total(self) -> float:
        """Messages per second, over all channels: the sum of their rates or the rate of the queue, whichever
        is higher. Both can lag behind, and neither counts too much.
        """
        rates = sum(channel.rate for channel in self.channels.values() if channel.rate is not None)
        return max(rates, self.history.rate or 0.0)

    @property
    def is_settled(self) -> bool:
        """There were enough polls to tell a channel that always waits from one that happened to wait."""
        return self.poll >= POLLS_COMPARED

    @cached_property
    def level(self) -> Level | None:
        """What a channel of weight 1 that competes is entitled to, in messages per second; None until all
        channels have been read, or if nothing is served.
        """
        if not self.is_complete or self.total <= 0:
            return None
        claims = (
            channel.claim for channel in self.channels.values() if channel.rate or channel.is_backlogged
        )
        bounds = [(min(claim.demand, claim.limit), claim.weight) for claim in claims]
        return Level(water_level(self.total, bounds))

    @property
    def fair(self) -> float | None:
        """The level; None if no channel competes."""
        return None if self.level is None or math.isinf(self.level.height) else self.level.height

    @cached_property
    def competing(self) -> int:
        """How many channels compete: they could be served more, but for the others."""
        return sum(1 for _ in self._competing())

    @cached_property
    def jain(self) -> float:
        """How equally the channels are served that compete: Jain's index of what each gets, divided by what
        it is entitled to. Those that are entitled to few messages during the last polls do not count.
        """
        return jain(
            (channel.rate or 0.0) / owed
            for channel, owed in self._competing()
            if owed > 0 and owed * channel.history.seconds >= ENOUGH_MESSAGES
        )

    @cached_property
    def misallocated(self) -> float:
        """The part of what is served, 0 to 1, that other channels should have got. A channel that lacks no
        more than one message lacks nothing.
        """
        lacking = sum(
            max(0.0, owed - (channel.rate or 0.0) - 1 / channel.history.seconds)
            for channel, owed in self._competing()
            if channel.history.seconds
        )
        return lacking / self.total if self.total else 0.0

    def _competing(self) -> Iterator[tuple[ChannelState, float]]:
        """Each channel that competes, and what it is entitled to."""
        if self.level is None:
            return
        for channel in self.channels.values():
            if channel.is_backlogged:
                amount, bound_by = self.level.entitlement(channel.claim)
                if bound_by is BoundBy.SHARE:
                    yield channel, amount

    @cached_property
    def noisy(self) -> frozenset[str]:
        """The names of the noisy channels: see `noise`."""
        return noisy_channels(channel.load for channel in self.channels.values())

    @cached_property
    def oldest_quiet_ms(self) -> int | None:
        """How long the oldest due message of all other channels has waited. Those that a pause or a limit of
        their own holds back do not count.
        """
        return max(
            (
                channel.stats.oldest_due_ms
                for channel in self.channels.values()
                if channel.stats.oldest_due_ms is not None
                and channel.is_waiting
                and channel.name not in self.noisy
            ),
            default=None,
        )

    def entitlement(self, channel: ChannelState) -> Entitlement | None:
        """What it is entitled to, in messages per second, and what bounds that."""
        return None if self.level is None else self.level.entitlement(channel.claim)

    def is_limited(self, channel: ChannelState) -> bool:
        """Its own limit bounds its entitlement."""
        found = self.entitlement(channel)
        return found is not None and found.bound_by is BoundBy.LIMIT

    def share(self, channel: ChannelState) -> float | None:
        """Its part of all messages that are served, 0 to 1."""
        return None if channel.rate is None or not self.total else channel.rate / self.total

    def entitled_share(self, channel: ChannelState) -> float | None:
        """The part that it is entitled to, 0 to 1."""
        found = self.entitlement(channel)
        return None if found is None else min(1.0, found.amount / self.total)

    def of_fair(self, channel: ChannelState) -> float | None:
        """Its rate divided by its entitlement: 1.0 is exactly fair."""
        found = self.entitlement(channel)
        return None if channel.rate is None or not found or not found.amount else channel.rate / found.amount

    def standing(self, channel: ChannelState) -> Standing:
        """A channel that its own limit holds back is neither above nor below its entitlement."""
        found = self.entitlement(channel)
        return standing(
            channel.history.served,
            channel.history.seconds,
            None if found is None or found.bound_by is BoundBy.LIMIT else found.amount,
            can_lack=channel.is_backlogged and (channel.stats.oldest_due_ms or 0) >= SHORT_WAIT_MS,
        )


class ChannelTable:
    """All channels read so far. Pages are read in the order of names; a known channel missing from its page
    is gone.
    """

    def __init__(self) -> None:
        self._channels: dict[str, ChannelState] = {}
        self._queue = ServedHistory()
        self._cursor: str | None = None
        self._pass_began_at = 0
        self.poll = 0
        self.polls_per_pass = 0
        """How many polls the last pass through all channels took; 0 before the first is complete."""

    @property
    def cursor(self) -> str | None:
        """The name after which the next page begins."""
        return self._cursor

    def begin_poll(self) -> None:
        self.poll += 1
        if self._cursor is None:
            self._pass_began_at = self.poll

    def read(self, channels: Iterable[ChannelStatistics], at: float) -> None:
        for stats in channels:
            known = self._channels.get(stats.channel)
            sample = Sample(self.poll, at, stats.served, competes(stats))
            history = (known.history if known else ServedHistory()).plus(sample)
            self._channels[stats.channel] = ChannelState(stats, history, history.rate, history.is_backlogged)

    def read_page(self, page: Sequence[ChannelStatistics], at: float, *, is_last: bool) -> None:
        """Store the page after the cursor, and advance the cursor."""
        first, last = self._cursor or "", None if is_last or not page else page[-1].channel
        there = {stats.channel for stats in page}
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
            self.polls_per_pass = self.poll - self._pass_began_at + 1
            self._pass_began_at = self.poll + 1

    def stalest(self, names: Iterable[str], limit: int) -> list[str]:
        """The channels whose last sample is oldest, except those read at this poll."""
        ages = [
            (channel.history.samples[-1].poll, name)
            for name in names
            if (channel := self._channels.get(name)) is not None
            and channel.history.samples[-1].poll < self.poll
        ]
        return [name for _, name in sorted(ages)[:limit]]

    def snapshot(self, queue: QueueStatistics | None, at: float, server_time: int) -> QueueSnapshot:
        """`queue` may be of an earlier poll, with the time of then."""
        is_new = not self._queue.samples or at > self._queue.samples[-1].at
        if queue is not None and is_new:
            self._queue = self._queue.plus(Sample(self.poll, at, queue.served))
        return QueueSnapshot(
            self.poll,
            server_time,
            queue,
            self._queue,
            dict(self._channels),
            self.polls_per_pass > 0,
            self.polls_per_pass,
        )
