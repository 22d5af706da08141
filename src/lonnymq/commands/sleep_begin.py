"""Say that a consumer is about to sleep."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt


@dataclass(frozen=True, slots=True)
class Awaited:
    """Unless `is_sure`, look and call again after a few milliseconds."""

    generation: int
    is_sure: bool


@dataclass(frozen=True)
class SleepBegin(OneRecord[Awaited]):
    function = "sleep_begin"
    is_harmless = True
    record = Awaited

    generation: BigInt | None = None
