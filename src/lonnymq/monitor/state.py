"""The channels, as the polls have read them so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lonnymq.commands import ChannelStatistics, QueueStatistics
from lonnymq.monitor.fairness import Standing, fair_rate, jain, standing
from lonnymq.monitor.noise import Load, noisy_channels
from lonnymq.monitor.rates import POLLS_COMPARED, Sample, ServedHistory

COMPETING = (None, "queue limit")
"""A channel in one of these states competes with the others: no limit of its own holds it back."""
SHORT_WAIT_MS = 2_000
"""A channel whose oldest due message has waited for less is not below its fair share: it may have had nothing
due between two polls.
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
    def backlogged(self) -> int:
        return sum(channel.is_backlogged for channel in self.channels.values())

    @cached_property
    def fair(self) -> float | None:
        """Messages per second for a backlogged channel of weight 1; None until all channels have been
        read.
        """
        if not self.is_complete:
            return None
        backlogged = sum(channel.stats.weight for channel in self.channels.values() if channel.is_backlogged)
        others = (
            (channel.rate, channel.stats.weight)
            for channel in self.channels.values()
            if channel.rate is not None and not channel.is_backlogged
        )
        return fair_rate(self.total, backlogged, others)

    @cached_property
    def jain(self) -> float:
        """How equally the backlogged channels are served, by weight: see `fairness.jain`."""
        return jain(
            channel.rate / channel.stats.weight
            for channel in self.channels.values()
            if channel.is_backlogged and channel.rate is not None
        )

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

    def owed(self, channel: ChannelState) -> float | None:
        """Its fair share in messages per second, by its weight."""
        return None if self.fair is None else self.fair * channel.stats.weight

    def share(self, channel: ChannelState) -> float | None:
        """Its part of all messages that are served, 0 to 1."""
        return None if channel.rate is None or not self.total else channel.rate / self.total

    def of_fair(self, channel: ChannelState) -> float | None:
        """Its rate divided by its fair share: 1.0 is exactly fair."""
        owed = self.owed(channel)
        return None if channel.rate is None or not owed else channel.rate / owed

    def standing(self, channel: ChannelState) -> Standing:
        return standing(
            channel.history.served,
            channel.history.seconds,
            self.owed(channel),
            is_backlogged=channel.is_backlogged and (channel.stats.oldest_due_ms or 0) >= SHORT_WAIT_MS,
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
