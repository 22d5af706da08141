"""Find out from a history how many consumers there were, and how quickly they served.

The number of consumers is the most attempts that ever ran at once, per group of lanes that have consumers in
common. The times are those with which the simulation of the actual settings comes closest to the recorded waits:
one of them is changed at a time, for as long as that helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lonnymq.simulation.consumers import Consumers, Pool, lane_groups
from lonnymq.simulation.errors import distance
from lonnymq.simulation.events import Policies, simulate
from lonnymq.simulation.runs import Run, most_at_once
from lonnymq.simulation.waits import Histogram

CANDIDATES: dict[str, tuple[float, ...]] = {
    "pickup_ms": (0, 1, 2, 5, 10, 20, 50),
    "turnaround_ms": (0, 1, 2, 4, 7, 10, 20, 50),
    "dispatch_ms": (10, 20, 40, 60),
}
SHARES = (1.0, 0.95, 0.9, 0.8)
"""Leases overlap where a consumer dequeues before it has finished, so there may be fewer than it seems."""
ROUNDS = 2


def consumers_of(runs: Sequence[Run]) -> Consumers:
    """As many consumers as ever worked at once."""
    groups = lane_groups(dict.fromkeys((run.lane, run.consumer) for run in runs))
    pools = [Pool(max(1, most_at_once(run for run in runs if run.lane in lanes)), lanes) for lanes in groups]
    return Consumers(tuple(pools))


def calibrate(runs: Sequence[Run], policies: Policies, used: Sequence[bool], start: Consumers) -> Consumers:
    """`used`: which runs are compared. The others are simulated, too, but held out."""
    recorded = _waits(runs, used, [1000 * run.began_at for run in runs])
    known: dict[Consumers, float] = {}

    def off(consumers: Consumers) -> float:
        if consumers not in known:
            simulated = _waits(runs, used, simulate(runs, policies, consumers))
            known[consumers] = sum(
                recorded[channel].total() * distance(simulated[channel], recorded[channel])
                for channel in recorded
            )
        return known[consumers]

    best = start
    for _ in range(ROUNDS):
        before = best
        for name, values in CANDIDATES.items():
            best = min((best, *(replace(best, **{name: value}) for value in values)), key=off)
        fewer = (start.with_count(max(len(start.pools), round(share * start.count))) for share in SHARES)
        best = min((best, *(replace(best, pools=one.pools) for one in fewer)), key=off)
        if best == before:
            break
    return best


def _waits(runs: Sequence[Run], used: Sequence[bool], began: Sequence[int | None]) -> dict[str, Histogram]:
    found: dict[str, list[float | None]] = {}
    for run, is_used, at in zip(runs, used, began, strict=True):
        if is_used and run.is_counted and not run.is_running:
            wait = None if at is None else max(0.0, at / 1000 - run.due_at)
            found.setdefault(run.channel, []).append(wait)
    return {channel: Histogram.of(waits) for channel, waits in found.items()}
