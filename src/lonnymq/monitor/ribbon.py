"""Who was served in each of the last polls: the channels that got most, and all others together."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from lonnymq.monitor.rates import ServedHistory
from lonnymq.monitor.state import QueueSnapshot

LENGTH = 60
TOP = 8


@dataclass(frozen=True, slots=True)
class RibbonColumn:
    """One poll. `shares` and `others` are parts of `served`, 0 to 1; they are 0 if nothing was served."""

    poll: int
    at: int
    """The server's time, in Unix milliseconds."""
    served: float
    """Messages."""
    shares: Sequence[tuple[str, float]]
    """In the same order in all columns."""
    others: float


@dataclass(slots=True)
class _Poll:
    number: int
    at: int
    served: float = 0.0
    has_channels: bool = False
    channels: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def column(self, top: Sequence[str]) -> RibbonColumn:
        """What the channels were served can be known later than what the queue was, or earlier."""
        served = max(self.served, sum(self.channels.values()))
        shares = [(name, self.channels.get(name, 0.0) / served if served else 0.0) for name in top]
        others = round(1.0 - sum(share for _, share in shares), 9) if served else 0.0
        return RibbonColumn(self.number, self.at, served, shares, max(0.0, others))


class Ribbon:
    """Add each snapshot of a poller. A channel that was not read at some polls was served evenly meanwhile,
    as far as one knows, so adding a snapshot can change earlier columns.
    """

    def __init__(self, length: int = LENGTH, top: int = TOP) -> None:
        self._polls: deque[_Poll] = deque(maxlen=length)
        self._top = top
        self._shown: list[str] = []

    def add(self, snapshot: QueueSnapshot) -> None:
        if self._polls and snapshot.poll <= self._polls[-1].number:
            return
        self._polls.append(_Poll(snapshot.poll, snapshot.at))
        for poll, served in self._served_since(snapshot.history):
            poll.served += served
        for name, channel in snapshot.channels.items():
            if channel.history.samples[-1].poll == snapshot.poll:
                self._polls[-1].has_channels = True
                for poll, served in self._served_since(channel.history):
                    poll.channels[name] += served
        self._choose()

    @property
    def channels(self) -> list[str]:
        """Those that got most during all polls. A channel keeps its place as long as it is one of them."""
        return list(self._shown)

    def columns(self) -> list[RibbonColumn]:
        """Oldest first, up to the last poll that has read any channel."""
        known = list(self._polls)
        while known and not known[-1].has_channels:
            known.pop()
        return [poll.column(self._shown) for poll in known]

    def _served_since(self, history: ServedHistory) -> list[tuple[_Poll, float]]:
        """How many messages were served at each poll since the sample before, if the last poll has a new
        one.
        """
        now = self._polls[-1].number
        if len(history.samples) < 2 or history.samples[-1].poll != now:  # noqa: PLR2004
            return []
        before, after = history.samples[-2:]
        if after.served == before.served:
            return []
        each = (after.served - before.served) / (now - before.poll)
        return [(poll, each) for poll in self._polls if poll.number > before.poll]

    def _choose(self) -> None:
        totals: defaultdict[str, float] = defaultdict(float)
        for poll in self._polls:
            for name, served in poll.channels.items():
                totals[name] += served
        shown = set(self._shown)
        most = sorted(totals, key=lambda name: (-totals[name], name not in shown, name))[: self._top]
        new = [name for name in most if name not in shown]
        kept = set(most)
        places = [name if name in kept else (new.pop(0) if new else "") for name in self._shown]
        self._shown = [name for name in places if name] + new
