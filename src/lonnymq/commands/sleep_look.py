"""Whether a consumer that sleeps has something to do."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Texts


@dataclass(frozen=True, slots=True)
class Look:
    """Not `is_due`: sleep until `again_at`. Unless `is_awaited`, nobody notifies."""

    is_due: bool
    again_at: int
    is_awaited: bool
    now_at: int


@dataclass(frozen=True)
class SleepLook(OneRecord[Look]):
    """`lanes` None: all."""

    function = "sleep_look"
    is_harmless = True
    record = Look

    generation: BigInt | None = None
    lanes: Texts | None = None
