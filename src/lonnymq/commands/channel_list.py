"""The channels, by name, by turn or by what waits."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.channel_stats import ChannelStatistics
from lonnymq.commands.shapes import ManyRecords
from lonnymq.statement import Int, Text


@dataclass(frozen=True)
class ChannelList(ManyRecords[ChannelStatistics]):
    function = "channel_list"
    is_harmless = True
    record = ChannelStatistics

    order: Text = "name"
    after: Text | None = None
    limit: Int = 50
