"""Put dead messages back into line, with fresh attempts."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyOutcomes
from lonnymq.statement import BigInt, BigInts


@dataclass(frozen=True)
class DeadRetry(ManyOutcomes):
    function = "dead_retry"

    ids: BigInts
    dequeue_at: BigInt | None = None
