"""Extend the leases of all claims that are not finished."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Boolean, Text


@dataclass(frozen=True, slots=True)
class ClaimExtended:
    """How many; `lost` are those that others have, or that are finished or cancelled."""

    extended: int
    lost: int


@dataclass(frozen=True)
class ClaimExtend(OneRecord[ClaimExtended]):
    function = "claim_extend"
    record = ClaimExtended
    is_repeatable = True

    claimant: Text
    generation: BigInt
    lease_ms: BigInt | None = None
    forget: Boolean = False
