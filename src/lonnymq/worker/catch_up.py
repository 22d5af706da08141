"""Which of the times that are due make messages. Usually one is due; after a downtime there are more."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Literal, get_args

from lonnymq.worker.cron_times import CronTimes

CatchUp = Literal["one", "all", "none"]
CATCH_UPS: tuple[str, ...] = get_args(CatchUp)

GRACE_MS = 60_000  # a time that is late by no more than this was not missed
TIMES_MAX = 1000  # as many as one call of the queue accepts


@dataclass(frozen=True)
class Firing:
    """Handles all times of a schedule up to `upto`: `times` make messages, the others are skipped."""

    upto: int
    times: list[int]


def next_firing(times: CronTimes, catch_up: CatchUp, handled_until: int, now: int) -> Firing | None:
    """For a schedule whose times are handled up to `handled_until`. None if nothing is due."""
    if catch_up == "all":
        return _firing(_due(times, handled_until, now))
    last = times.last(handled_until, now)
    if last is None:
        return None
    if catch_up == "one":
        return Firing(last, [last])
    return _firing(_due(times, max(handled_until, now - GRACE_MS - 1), now)) or Firing(last, [])


def _due(times: CronTimes, after: int, now: int) -> list[int]:
    return list(islice(takewhile(lambda time: time <= now, times.following(after)), TIMES_MAX))


def _firing(times: list[int]) -> Firing | None:
    return Firing(times[-1], times) if times else None
