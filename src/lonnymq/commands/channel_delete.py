"""Forget a channel; with its messages when told so."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.result import ResultText
from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import Boolean, Int, Text


@dataclass(frozen=True, slots=True)
class Deleted:
    """`more`: call again."""

    result: ResultText
    messages: int


@dataclass(frozen=True)
class ChannelDelete(OneRecord[Deleted]):
    function = "channel_delete"
    record = Deleted

    channel: Text
    with_messages: Boolean = False
    limit: Int = 10000
