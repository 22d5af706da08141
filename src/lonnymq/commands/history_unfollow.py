"""Forget a follower of the history. Returns whether there was one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.statement import Command, Row, Text


@dataclass(frozen=True)
class HistoryUnfollow(Command[bool]):
    function = "history_unfollow"
    is_repeatable = True

    name: Text

    def decode(self, rows: Sequence[Row]) -> bool:
        return bool(rows[0][0])
