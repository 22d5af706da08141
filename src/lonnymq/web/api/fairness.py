"""Fairness: who is served, against what each is entitled to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from lonnymq.monitor.order import Order, page_in_order
from lonnymq.monitor.ribbon import RibbonColumn
from lonnymq.web.channel_row import ChannelRow, row_of
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/fairness", tags=["overview"])

FairnessSort = Literal["served", "starved"]


@dataclass(frozen=True, slots=True)
class Fairness:
    """As of the last poll. `competing` channels could be served more, but for the others; of `rate` messages
    per second, one of them of weight 1 is entitled to `fair_rate`. `jain` is 1 if all of them get the same
    part of their entitlement, and `misallocated` is the part of `rate` that should have gone to others, 0 to
    1. `fair_rate` is None if none competes, or until all channels have been read.
    """

    at: int
    read: int
    is_complete: bool
    is_settled: bool
    """False during the first ten polls: until then, too many channels may count as competing."""
    rate: float
    fair_rate: float | None
    competing: int
    jain: float
    misallocated: float
    starved_count: int
    channels: list[ChannelRow]
    ribbon: list[RibbonColumn]
    """Who was served at each of the last polls, oldest first: the channels that got most, and the others."""


@router.get("")
def get_fairness(
    view: CurrentView,
    sort: FairnessSort = "served",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Fairness:
    """The share of channels against what they are entitled to: those that are served most, or least."""
    view.check()
    summary = view.live.summary()
    snapshot = summary.snapshot
    order = Order.RATE if sort == "served" else Order.STARVED
    found = [
        channel
        for channel in page_in_order(snapshot, order, limit)
        if channel.rate or channel.is_backlogged or channel.is_waiting
    ]
    view.live.look_at([channel.name for channel in found])
    return Fairness(
        at=snapshot.at,
        read=len(snapshot.channels),
        is_complete=snapshot.is_complete,
        is_settled=snapshot.is_settled,
        rate=snapshot.total,
        fair_rate=snapshot.fair,
        competing=snapshot.competing,
        jain=snapshot.jain,
        misallocated=snapshot.misallocated,
        starved_count=summary.starved_count,
        channels=[row_of(summary, channel) for channel in found],
        ribbon=view.live.ribbon(),
    )
