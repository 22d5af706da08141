"""The claim behind a number: one that is still held, or a new one."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Int, Text, Texts


@dataclass(frozen=True, slots=True)
class Claim:
    """Without `messages` there is none: ask again at `again_at`, where it is not None."""

    seq: int
    messages: int
    again_at: int | None


@dataclass(frozen=True)
class ClaimNext(OneRecord[Claim]):
    function = "claim_next"
    record = Claim
    is_repeatable = True

    claimant: Text
    generation: BigInt
    seq: BigInt
    limit: Int
    lease_ms: BigInt | None = None
    before: BigInt | None = None
    lanes: Texts | None = None
