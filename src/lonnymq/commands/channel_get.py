"""The policy of a channel."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import Numeric, Text


@dataclass(frozen=True, slots=True)
class ChannelPolicy:
    """None, or an interval of 0: no such limit. A channel of weight 2 gets twice the share of one of 1."""

    channel: str
    max_concurrency: int | None
    release_interval_ms: int
    paused: bool
    max_size: int | None
    weight: Numeric


@dataclass(frozen=True)
class ChannelGet(OneRecord[ChannelPolicy]):
    function = "channel_get"
    is_harmless = True
    record = ChannelPolicy

    channel: Text
