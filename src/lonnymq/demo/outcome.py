"""What the demo has shown, tenant by tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lonnymq.demo.service import Record
from lonnymq.demo.tenants import Tenant


@dataclass(frozen=True)
class Served:
    """One tenant: when its last message was done, and when it would have been in a plain queue."""

    channel: str
    messages: int
    completed: int
    dead: int
    last_position: int
    fifo_position: int
    most_held: int
    max_concurrency: int


@dataclass(frozen=True)
class Outcome:
    tenants: tuple[Served, ...]
    seconds: float


def outcome(tenants: Sequence[Tenant], record: Record, seconds: float) -> Outcome:
    served, sent = [], 0
    for tenant in tenants:
        sent += tenant.messages
        positions = [
            place for place, channel in enumerate(record.order, start=1) if channel == tenant.channel
        ]
        served.append(
            Served(
                channel=tenant.channel,
                messages=tenant.messages,
                completed=len(positions) - record.dead[tenant.channel],
                dead=record.dead[tenant.channel],
                last_position=max(positions, default=0),
                fifo_position=sent,
                most_held=record.most_held[tenant.channel],
                max_concurrency=tenant.max_concurrency,
            )
        )
    return Outcome(tuple(served), round(seconds, 2))
