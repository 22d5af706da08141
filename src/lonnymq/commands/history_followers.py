"""Who follows the history, and up to where."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyRecords


@dataclass(frozen=True, slots=True)
class Follower:
    """`at`: when it last said so."""

    name: str
    snapshot: str
    at: int


@dataclass(frozen=True)
class HistoryFollowers(ManyRecords[Follower]):
    function = "history_followers"
    is_harmless = True
    record = Follower
