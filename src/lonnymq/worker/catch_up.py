"""Which of the ticks that are due make messages: one, when all is well; after a downtime there are more."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Literal, get_args

from lonnymq.worker.cron_times import Ticks

CatchUp = Literal["one", "all", "none"]
CATCH_UPS: tuple[str, ...] = get_args(CatchUp)

GRACE_MS = 60_000  # a tick that is late by no more than this is not missed
PIECE = 1000  # as many as the queue takes at once


@dataclass(frozen=True)
class Move:
    """Decides all ticks up to one: `ticks` make messages, those before them do not."""

    upto: int
    ticks: list[int]


def next_move(ticks: Ticks, catch_up: CatchUp, stands_at: int, now: int) -> Move | None:
    """For a schedule whose ticks are decided up to `stands_at`. None: nothing is due."""
    if catch_up == "all":
        return _move(_due(ticks, stands_at, now))
    last = ticks.last(stands_at, now)
    if last is None:
        return None
    if catch_up == "one":
        return Move(last, [last])
    return _move(_due(ticks, max(stands_at, now - GRACE_MS - 1), now)) or Move(last, [])


def _due(ticks: Ticks, after: int, now: int) -> list[int]:
    return list(islice(takewhile(lambda tick: tick <= now, ticks.following(after)), PIECE))


def _move(ticks: list[int]) -> Move | None:
    return Move(ticks[-1], ticks) if ticks else None
