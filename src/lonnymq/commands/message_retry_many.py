"""message_retry for many, each with its token or all with one."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyEndings
from lonnymq.statement import BigInts, Byteas, Texts, Uuids


@dataclass(frozen=True)
class MessageRetryMany(ManyEndings):
    function = "message_retry_many"

    ids: BigInts
    tokens: Uuids
    dequeue_ats: BigInts | None = None
    states: Byteas | None = None
    errors: Texts | None = None
    delays_ms: BigInts | None = None
