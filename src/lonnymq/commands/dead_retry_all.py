"""Retry all dead messages of a channel or an error, a bounded number a call."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Int, Text


@dataclass(frozen=True, slots=True)
class RetriedAll:
    """`next_after` is None when that was all."""

    retried: int
    refused: int
    next_after: int | None


@dataclass(frozen=True)
class DeadRetryAll(OneRecord[RetriedAll]):
    function = "dead_retry_all"
    record = RetriedAll

    channel: Text | None = None
    error: Text | None = None
    dequeue_at: BigInt | None = None
    after: BigInt = 0
    limit: Int = 1000
