"""The schedule of faults: made from a seed, before anything runs."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chaos.faults import FAULTS

CALM = "calm"
CALM_S = 6.0
CALM_EVERY_S = 60.0
WARM_UP = 0.04  # of the time, before the first fault
LAST = 0.97  # after this part of the time, no fault begins


@dataclass(frozen=True)
class Planned:
    """`at_s` is when it begins, after the start of the run; later if the one before it takes longer."""

    at_s: float
    fault: str
    seed: str


@dataclass(frozen=True)
class Plan:
    """Faults of one track happen one after the other; those of different tracks at the same time."""

    tracks: Mapping[str, list[Planned]]
    calm: list[Planned]

    @property
    def faults(self) -> list[Planned]:
        return sorted((p for track in self.tracks.values() for p in track), key=lambda p: p.at_s)

    def count(self, name: str) -> int:
        return sum(planned.fault == name for planned in self.faults)


def make_plan(seed: str, messages: int, seconds: float, only: Iterable[str], *, times: int = 1) -> Plan:
    """How many there are of each fault follows from the number of messages; at least `times`."""
    wanted = set(only)
    chosen = {name: fault for name, fault in FAULTS.items() if name in wanted}
    tracks: dict[str, list[Planned]] = {}
    for track in sorted({fault.track for fault in chosen.values()}):
        names = [
            name
            for name, fault in chosen.items()
            if fault.track == track
            for _ in range(max(times, round(messages / fault.one_per)))
        ]
        random.Random(f"{seed}/{track}").shuffle(names)
        tracks[track] = [
            Planned(at, name, f"{seed}/{track}/{i}")
            for i, (at, name) in enumerate(
                zip(_times_of(track, seed, len(names), seconds), names, strict=True)
            )
        ]
    return Plan(tracks, _calm(seconds))


def _times_of(track: str, seed: str, count: int, seconds: float) -> list[float]:
    chance = random.Random(f"{seed}/{track}/times")
    first, last = seconds * WARM_UP, seconds * LAST
    return [first + (last - first) * (i + chance.random()) / count for i in range(count)]


def _calm(seconds: float) -> list[Planned]:
    """Times without faults, in which fairness is judged: one a minute, and at least one."""
    every = min(CALM_EVERY_S, seconds / 2)
    return [Planned(every * (i + 0.7), CALM, "") for i in range(int(seconds / every))]
