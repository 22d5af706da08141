"""Find out from a history how many consumers there were, and how quickly they served.

The number of consumers is the most attempts that ever ran at once, per group of lanes that have consumers in
common. The times are those with which the simulation of the actual settings comes closest to the recorded
waits. All pairs of turnaround and dispatch times are tried, because each can make up for some of the other;
then the time to pick up a message and the number of consumers, and then finer turnaround times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from lonnymq.simulation.consumers import Consumers, Pool, lane_groups
from lonnymq.simulation.errors import distance
from lonnymq.simulation.events import Policies, simulate
from lonnymq.simulation.runs import Run, most_at_once
from lonnymq.simulation.waits import Histogram

TURNAROUNDS_MS = (0.0, 2.0, 5.0, 10.0, 20.0, 50.0)
DISPATCHES_MS = (0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 150.0)
PICKUPS_MS = (0.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
FINER = (0.6, 0.8, 1.25, 1.5)
SHARES = (0.95, 0.9, 0.8)
"""Leases overlap where a consumer dequeues before it has finished, so there may be fewer than it seems."""


def consumers_of(runs: Sequence[Run]) -> Consumers:
    """As many consumers as ever worked at once."""
    groups = lane_groups(dict.fromkeys((run.lane, run.consumer) for run in runs))
    pools = [Pool(max(1, most_at_once(run for run in runs if run.lane in lanes)), lanes) for lanes in groups]
    return Consumers(tuple(pools), pickup_ms=PICKUPS_MS[2])


def calibrate(runs: Sequence[Run], policies: Policies, used: Sequence[bool], start: Consumers) -> Consumers:
    """`used`: which runs are compared. The others are simulated, too, but held out."""
    recorded = _waits(runs, used, [1000 * run.began_at for run in runs])
    known: dict[Consumers, float] = {}

    def off(consumers: Consumers) -> float:
        if consumers not in known:
            simulated = _waits(runs, used, simulate(runs, policies, consumers))
            known[consumers] = sum(
                math.sqrt(recorded[channel].total()) * distance(simulated[channel], recorded[channel])
                for channel in recorded
            )
        return known[consumers]

    pairs = product(TURNAROUNDS_MS, DISPATCHES_MS)
    tried = [replace(start, turnaround_ms=turnaround, dispatch_ms=dispatch) for turnaround, dispatch in pairs]
    best = min(tried, key=off)
    best = min((best, *(replace(best, pickup_ms=pickup) for pickup in PICKUPS_MS)), key=off)
    counts = {max(len(start.pools), round(share * start.count)) for share in SHARES}
    best = min((best, *(best.with_count(count) for count in sorted(counts))), key=off)
    return min((best, *(replace(best, turnaround_ms=part * best.turnaround_ms) for part in FINER)), key=off)


def _waits(runs: Sequence[Run], used: Sequence[bool], began: Sequence[int | None]) -> dict[str, Histogram]:
    found: dict[str, list[float | None]] = {}
    for run, is_used, at in zip(runs, used, began, strict=True):
        if is_used and run.is_counted and not run.is_running:
            wait = None if at is None else max(0.0, at / 1000 - run.due_at)
            found.setdefault(run.channel, []).append(wait)
    return {channel: Histogram.of(waits) for channel, waits in found.items()}
