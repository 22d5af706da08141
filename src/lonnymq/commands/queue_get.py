"""The queue's settings."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """`max_concurrency` None: no limit over all channels. `notify_channel` is what to LISTEN to."""

    content_max_bytes: int
    lease_ms: int
    lease_max_ms: int
    max_attempts: int
    max_concurrency: int | None
    paused: bool
    dedupe_keep_ms: int
    history: bool
    history_content: bool
    history_keep_ms: int
    notify: bool
    notify_channel: str


@dataclass(frozen=True)
class QueueGet(OneRecord[QueueSettings]):
    function = "queue_get"
    is_harmless = True
    record = QueueSettings
