"""Make messages of what was staged under a batch."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import Boolean, Uuid


@dataclass(frozen=True, slots=True)
class Published:
    """How many; `refused` are those that were left out because their channel was full."""

    created: int
    duplicates: int
    refused: int


@dataclass(frozen=True)
class StagingPublish(OneRecord[Published]):
    function = "staging_publish"
    record = Published

    batch: Uuid
    drop_full: Boolean = False
