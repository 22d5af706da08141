"""Change the queue's settings."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.queue_get import QueueSettings
from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Boolean, Int


@dataclass(frozen=True)
class QueueSet(OneRecord[QueueSettings]):
    function = "queue_set"
    is_repeatable = True
    record = QueueSettings

    content_max_bytes: Int | None = None
    lease_max_ms: BigInt | None = None
    max_attempts: Int | None = None
    lease_ms: BigInt | None = None
    max_concurrency: Int | None = None
    paused: Boolean | None = None
    dedupe_keep_ms: BigInt | None = None
    history: Boolean | None = None
    history_content: Boolean | None = None
    history_keep_ms: BigInt | None = None
    notify: Boolean | None = None
