"""Begin to consume in numbered claims; who did so under this name before is refused from now on."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import Text


@dataclass(frozen=True, slots=True)
class Claimant:
    """`generation` is for the other calls. Claims up to `done_seq` are finished, up to `last_seq` made."""

    generation: int
    done_seq: int
    last_seq: int


@dataclass(frozen=True)
class ClaimOpen(OneRecord[Claimant]):
    function = "claim_open"
    record = Claimant
    is_repeatable = True

    claimant: Text
