"""What other limits of a channel would do, estimated from its history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from lonnymq.channel_policy import INHERIT, Inherit
from lonnymq.commands import QueueSettings
from lonnymq.monitor.what_if import (
    Estimate,
    Limits,
    NoEstimate,
    Refusal,
    WeightShare,
    estimate,
    limits_of,
    weight_share,
)
from lonnymq.rate import interval_us
from lonnymq.web.access import Right
from lonnymq.web.api.channel import CONCURRENCY_MAX
from lonnymq.web.api.parameters import Name, RateText
from lonnymq.web.view import CurrentView

router = APIRouter(prefix="/channel/what-if", tags=["channels"])

MESSAGES_READ = 1_000
Concurrency = Annotated[int, Field(ge=0, le=CONCURRENCY_MAX)] | Inherit | None
Burst = Annotated[int, Field(ge=1, le=1_000_000)] | Inherit | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Either the estimate or why there is none. With a weight, `share` is what the channel gets while it
    competes with those that compete now; a person who sees only some channels does not get it.
    """

    today: Limits
    proposed: Limits
    estimate: Estimate | None
    refused: NoEstimate | None
    share: WeightShare | None


@router.get("")
def get_what_if(
    view: CurrentView,
    name: Name,
    max_concurrency: Annotated[Concurrency, Query()] = None,
    rate: Annotated[RateText | None, Query()] = None,
    burst: Annotated[Burst, Query()] = None,
    weight: Annotated[float | None, Query(ge=0.001, le=1000)] = None,
) -> WhatIf:
    """How long the channel's last 1,000 messages waited, how long they wait in a simulation with its limits,
    and how long with others. What is not given stays as it is; 0 means no limit, and "inherit" the limit
    that the queue sets for all channels.
    """
    view.check(Right.READ, name)
    settings = view.queue.settings()
    today = limits_of(view.queue.channel(name).get())
    proposed = _with(today, settings, max_concurrency, rate, burst)
    found: Estimate | NoEstimate
    if settings.history:
        found = estimate(
            view.queue.history(channel=name, limit=MESSAGES_READ, with_content=False), today, proposed
        )
    else:
        found = NoEstimate(
            Refusal.TOO_FEW,
            "The queue keeps no history, which an estimate needs. `lonnymq queue set --history` keeps it.",
        )
    share = None
    if weight is not None and view.access.channels is None:
        share = weight_share(view.live.snapshot(), name, weight)
    return WhatIf(
        today,
        proposed,
        found if isinstance(found, Estimate) else None,
        found if isinstance(found, NoEstimate) else None,
        share,
    )


def _with(
    limits: Limits,
    settings: QueueSettings,
    max_concurrency: int | Inherit | None,
    rate: str | None,
    burst: int | Inherit | None,
) -> Limits:
    if max_concurrency is not None:
        given = settings.channel_max_concurrency if max_concurrency == INHERIT else max_concurrency
        limits = replace(limits, max_concurrency=given or None)
    if rate is not None:
        given_rate = settings.channel_rate if rate == INHERIT else rate
        limits = replace(limits, rate=given_rate if given_rate and interval_us(given_rate) else None)
    if burst is not None:
        limits = replace(limits, burst=settings.channel_burst if burst == INHERIT else burst)
    return limits
