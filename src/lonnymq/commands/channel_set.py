"""Change the policy of a channel."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.channel_get import ChannelPolicy
from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Boolean, Int, Numeric, Text


@dataclass(frozen=True)
class ChannelSet(OneRecord[ChannelPolicy]):
    function = "channel_set"
    is_repeatable = True
    record = ChannelPolicy

    channel: Text
    max_concurrency: Int | None = None
    release_interval_ms: BigInt | None = None
    paused: Boolean | None = None
    max_size: Int | None = None
    weight: Numeric | None = None
