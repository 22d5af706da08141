"""The lanes there are."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyRecords


@dataclass(frozen=True, slots=True)
class Lane:
    """As of the last dispatch: how many due messages wait, and how many of them are next to be served."""

    lane: str
    waiting: int
    ready: int


@dataclass(frozen=True)
class LaneList(ManyRecords[Lane]):
    function = "lane_list"
    is_harmless = True
    record = Lane
