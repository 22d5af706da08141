"""Discard all dead messages of a channel or an error, a bounded number a call."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Int, Text


@dataclass(frozen=True, slots=True)
class DiscardedAll:
    """`next_after` is None when that was all."""

    discarded: int
    next_after: int | None


@dataclass(frozen=True)
class DeadDiscardAll(OneRecord[DiscardedAll]):
    function = "dead_discard_all"
    record = DiscardedAll

    channel: Text | None = None
    error: Text | None = None
    after: BigInt = 0
    limit: Int = 1000
