"""Complete all messages of the claims up to a number."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Boolean, Text


@dataclass(frozen=True, slots=True)
class ClaimCompleted:
    """How many; `lost` are those that others have, or had."""

    completed: int
    cancelled: int
    lost: int


@dataclass(frozen=True)
class ClaimComplete(OneRecord[ClaimCompleted]):
    function = "claim_complete"
    record = ClaimCompleted

    claimant: Text
    generation: BigInt
    seq: BigInt
    whole: Boolean = False
