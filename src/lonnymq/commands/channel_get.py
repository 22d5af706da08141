"""The policy of a channel."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import Text


@dataclass(frozen=True, slots=True)
class ChannelPolicy:
    """None, or an interval of 0: no such limit."""

    channel: str
    max_concurrency: int | None
    release_interval_ms: int
    paused: bool
    max_size: int | None


@dataclass(frozen=True)
class ChannelGet(OneRecord[ChannelPolicy]):
    function = "channel_get"
    is_harmless = True
    record = ChannelPolicy

    channel: Text
