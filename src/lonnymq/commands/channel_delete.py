"""Forget a channel; with its messages when told so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.commands.result import Result
from lonnymq.statement import Boolean, Command, Int, Row, Text


@dataclass(frozen=True, slots=True)
class Deleted:
    """`more`: call again."""

    result: Result
    messages: int


@dataclass(frozen=True)
class ChannelDelete(Command[Deleted]):
    function = "channel_delete"
    columns = "result, messages"

    channel: Text
    with_messages: Boolean = False
    limit: Int = 10000

    def decode(self, rows: Sequence[Row]) -> Deleted:
        return Deleted(Result(rows[0][0]), rows[0][1])
