"""How many messages a channel had served at each poll, and its rate."""

from __future__ import annotations

from dataclasses import dataclass

POLLS_KEPT = 30
POLLS_COMPARED = 10
"""A rate is averaged over this many polls, so that it does not jump."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`at` is in seconds. A channel is backlogged while it has due messages and no limit of its own holds it
    back.
    """

    poll: int
    at: float
    served: int
    is_backlogged: bool = False


@dataclass(frozen=True, slots=True)
class ServedHistory:
    """The samples of the last polls, oldest first. Not every poll reads every channel."""

    samples: tuple[Sample, ...] = ()

    def plus(self, sample: Sample) -> ServedHistory:
        """A counter that went down belongs to a channel that was deleted meanwhile: start over."""
        before = self.samples
        if before and before[-1].poll == sample.poll:
            before = before[:-1]
        if before and (sample.served < before[-1].served or sample.at <= before[-1].at):
            before = ()
        oldest = sample.poll - POLLS_KEPT
        first = 0
        while first + 1 < len(before) and before[first + 1].poll <= oldest:
            first += 1
        return ServedHistory((*before[first:], sample))

    @property
    def served(self) -> int:
        """Messages served during `seconds`."""
        compared = self._compared()
        return compared[-1].served - compared[0].served if compared else 0

    @property
    def seconds(self) -> float:
        compared = self._compared()
        return compared[-1].at - compared[0].at if compared else 0.0

    @property
    def rate(self) -> float | None:
        """Messages per second; None while there is only one sample."""
        return self.served / self.seconds if len(self.samples) > 1 else None

    @property
    def is_backlogged(self) -> bool:
        """At every poll that the rate is averaged over."""
        return bool(self.samples) and all(sample.is_backlogged for sample in self._compared())

    def trend(self, poll: int, length: int = POLLS_KEPT) -> list[float | None]:
        """The rate at each of the last polls up to this one; None where it is not known.

        >>> ServedHistory((Sample(1, 10.0, 0), Sample(3, 12.0, 8))).trend(4, 5)
        [None, None, 4.0, 4.0, None]
        """
        rates: list[float | None] = [None] * length
        for before, after in zip(self.samples, self.samples[1:], strict=False):
            rate = (after.served - before.served) / (after.at - before.at)
            for slot in range(max(0, before.poll - poll + length), min(length, after.poll - poll + length)):
                rates[slot] = rate
        return rates

    def _compared(self) -> tuple[Sample, ...]:
        if not self.samples:
            return ()
        oldest = self.samples[-1].poll - POLLS_COMPARED
        first = len(self.samples) - 1
        while first > 0 and self.samples[first].poll > oldest:
            first -= 1
        return self.samples[first:]
