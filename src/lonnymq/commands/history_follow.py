"""Say up to where a follower has the history: what it has not is kept."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import Nothing
from lonnymq.statement import Text


@dataclass(frozen=True)
class HistoryFollow(Nothing):
    function = "history_follow"
    is_repeatable = True

    name: Text
    snapshot: Text
