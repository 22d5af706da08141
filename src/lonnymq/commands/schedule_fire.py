"""Decide ticks of a schedule: a message for some, none for the others; by one caller of many."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.result import Result, ResultText
from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, BigInts, Bytea, Int, Jsonb, Text


@dataclass(frozen=True, slots=True)
class Fired:
    """`fired`, `skipped`, or `lost`, `early`, `not_found`; `ticked_at`: where the schedule stands now."""

    result: ResultText
    ticked_at: int | None
    created: int
    refused: int
    now_at: int


@dataclass(frozen=True)
class ScheduleFire(OneRecord[Fired]):
    function = "schedule_fire"
    record = Fired
    is_repeatable = True

    name: Text
    after: BigInt
    upto: BigInt
    ticks: BigInts
    channel: Text
    content: Bytea
    headers: Jsonb | None = None
    max_attempts: Int | None = None
    priority: Int | None = None
    cost: Int | None = None
    lane: Text | None = None

    def tells_all(self, result: Fired) -> bool:
        """It is done once only: who moved the schedule may have been the first call, or somebody else."""
        return result.result is not Result.LOST
