"""What was served, as several looks have seen it, and what that says of now."""

from __future__ import annotations

from dataclasses import dataclass

LOOKS_KEPT = 30
LOOKS_COMPARED = 10
"""A rate is that of so many looks, where there are as many: of one alone, it would jump."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`at` is in seconds. Hungry is who has something due and may be served."""

    look: int
    at: float
    served: int
    is_hungry: bool = False


@dataclass(frozen=True, slots=True)
class Track:
    """The readings of the last looks, the oldest first. Not every look reads everything."""

    readings: tuple[Reading, ...] = ()

    def plus(self, reading: Reading) -> Track:
        """Who has served less than before was forgotten meanwhile, and begins anew."""
        before = self.readings
        if before and before[-1].look == reading.look:
            before = before[:-1]
        if before and (reading.served < before[-1].served or reading.at <= before[-1].at):
            before = ()
        oldest = reading.look - LOOKS_KEPT
        first = 0
        while first + 1 < len(before) and before[first + 1].look <= oldest:
            first += 1
        return Track((*before[first:], reading))

    @property
    def served(self) -> int:
        """In the `seconds` that are compared."""
        compared = self._compared()
        return compared[-1].served - compared[0].served if compared else 0

    @property
    def seconds(self) -> float:
        compared = self._compared()
        return compared[-1].at - compared[0].at if compared else 0.0

    @property
    def rate(self) -> float | None:
        """Messages a second; None while there is only one reading."""
        return self.served / self.seconds if len(self.readings) > 1 else None

    @property
    def is_hungry(self) -> bool:
        """Each time that is compared."""
        return bool(self.readings) and all(reading.is_hungry for reading in self._compared())

    def trend(self, look: int, length: int = LOOKS_KEPT) -> list[float | None]:
        """The rate at each of the last looks up to this one; None where nothing is known.

        >>> Track((Reading(1, 10.0, 0), Reading(3, 12.0, 8))).trend(4, 5)
        [None, None, 4.0, 4.0, None]
        """
        rates: list[float | None] = [None] * length
        for before, after in zip(self.readings, self.readings[1:], strict=False):
            rate = (after.served - before.served) / (after.at - before.at)
            for slot in range(max(0, before.look - look + length), min(length, after.look - look + length)):
                rates[slot] = rate
        return rates

    def _compared(self) -> tuple[Reading, ...]:
        if not self.readings:
            return ()
        oldest = self.readings[-1].look - LOOKS_COMPARED
        first = len(self.readings) - 1
        while first > 0 and self.readings[first].look > oldest:
            first -= 1
        return self.readings[first:]
