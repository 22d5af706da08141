"""The page of fairness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

from fastapi import APIRouter, Request, Response

from lonnymq.monitor.ribbon import RibbonColumn
from lonnymq.web.api.fairness import FairnessSort, get_fairness
from lonnymq.web.pages.render import page
from lonnymq.web.view import CurrentView

router = APIRouter()

COLUMN = 10
"""How wide a poll is."""
HEIGHT = 100
OTHERS = "c8"
HEADROOM = 1.1
"""So that the mark of the longest bar is inside."""


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle of the ribbon: one channel at one poll."""

    colour: str
    x: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the legend. Without a channel, it is for all others."""

    colour: str
    channel: str | None
    share: float


@dataclass(frozen=True, slots=True)
class Ribbon:
    """The blocks from the oldest poll, which was at `begin`, to the newest."""

    begin: int
    width: int
    blocks: list[Block]
    legend: list[Entry]


@router.get("/fairness")
def fairness_page(request: Request, view: CurrentView, sort: FairnessSort = "served") -> Response:
    fairness = get_fairness(view, sort)
    shares = [max(row.share or 0, row.entitlement or 0) for row in fairness.channels]
    return page(
        request,
        view,
        "fairness.html",
        fairness=fairness,
        ribbon=ribbon_of(fairness.ribbon),
        sort=sort,
        full=max(shares, default=0) * HEADROOM,
    )


def ribbon_of(columns: Sequence[RibbonColumn]) -> Ribbon | None:
    """None if nothing was served. At the first poll, it is not known yet."""
    columns = list(dropwhile(lambda column: not column.served, columns))
    total = sum(column.served for column in columns)
    if not total:
        return None
    blocks = [block for number, column in enumerate(columns) for block in _blocks(column, number * COLUMN)]
    served: dict[str, float] = {}
    for column in columns:
        for name, share in column.shares:
            served[name] = served.get(name, 0.0) + share * column.served
    legend = [Entry(f"c{place}", name, part / total) for place, (name, part) in enumerate(served.items())]
    others = sum(column.others * column.served for column in columns) / total
    if others > 0:
        legend.append(Entry(OTHERS, None, others))
    return Ribbon(columns[0].at, len(columns) * COLUMN, blocks, legend)


def _blocks(column: RibbonColumn, x: int) -> list[Block]:
    """Stacked from the top. The colour belongs to the place, which a channel keeps."""
    parts = [(f"c{place}", share) for place, (_, share) in enumerate(column.shares)]
    blocks = []
    y = 0.0
    for colour, share in [*parts, (OTHERS, column.others)]:
        height = round(share * HEIGHT, 2)
        if height:
            blocks.append(Block(colour, x, round(y, 2), height))
        y += height
    return blocks
