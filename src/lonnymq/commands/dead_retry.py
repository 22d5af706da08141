"""Put dead messages back into line, with fresh attempts."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyEndings
from lonnymq.statement import BigInt, BigInts


@dataclass(frozen=True)
class DeadRetry(ManyEndings):
    function = "dead_retry"

    ids: BigInts
    dequeue_at: BigInt | None = None
