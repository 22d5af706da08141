"""Where the history stands, for who follows it by snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord


@dataclass(frozen=True, slots=True)
class Bounds:
    """`system_id`: of the cluster; `trimmed_xid`: the last transaction of which rows were dropped."""

    snapshot: str
    system_id: int
    trimmed_xid: int
    is_kept: bool


@dataclass(frozen=True)
class HistoryBounds(OneRecord[Bounds]):
    function = "history_bounds"
    is_harmless = True
    record = Bounds
