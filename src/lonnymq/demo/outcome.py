"""What the demo has shown, tenant by tenant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from lonnymq.demo.tenants import Tenant
from lonnymq.demo.traffic import URGENT_HEADER
from lonnymq.demo.waits import Begun, part, waits

# A retry moves dequeue_at: what was tried again had arrived when it was created.
HISTORY = """
    SELECT channel, headers ? %s AS is_urgent, id, outcome, finished_at,
        COALESCE(first_dequeued_at, dequeued_at) AS began,
        CASE WHEN attempts = 1 THEN GREATEST(created_at, dequeue_at) ELSE created_at END AS arrived
    FROM lonnymq.history
"""
MEDIAN, MOST = 0.5, 0.95
Key = tuple[str, bool]


@dataclass(frozen=True)
class Served:
    """One tenant, or the urgent part of one. Waits in seconds: half, and 95 of 100, waited no longer."""

    channel: str
    is_urgent: bool
    completed: int
    dead: int
    median_wait: float
    most_wait: float
    fifo_median_wait: float
    fifo_most_wait: float
    remark: str


@dataclass(frozen=True)
class Outcome:
    tenants: tuple[Served, ...]
    messages: int
    seconds: float


@dataclass(frozen=True)
class Finished:
    key: Key
    outcome: str
    begun: Begun[Key]
    finished_at: int


def read(dsn: str) -> list[Finished]:
    """All that finished."""
    with psycopg.connect(dsn, row_factory=namedtuple_row) as conn:
        return [_finished(row) for row in conn.execute(HISTORY, (URGENT_HEADER,))]


def _finished(row: Any) -> Finished:  # noqa: ANN401 - with a column's name each
    key = row.channel, row.is_urgent
    return Finished(key, row.outcome, Begun(key, row.id, row.arrived, row.began), row.finished_at)


def outcome(tenants: Sequence[Tenant], finished: Sequence[Finished]) -> Outcome:
    return Outcome(
        tuple(_served(tenants, finished)),
        len(finished),
        round(
            (max(each.finished_at for each in finished) - min(each.begun.began for each in finished)) / 1000,
            1,
        ),
    )


def _served(tenants: Sequence[Tenant], finished: Sequence[Finished]) -> Iterator[Served]:
    waited = waits([each.begun for each in finished])
    counts: dict[tuple[Key, str], int] = {}
    for each in finished:
        counts[each.key, each.outcome] = counts.get((each.key, each.outcome), 0) + 1
    for tenant in tenants:
        for is_urgent in (False, True):
            key = tenant.channel, is_urgent
            if key in waited:
                real, fifo = waited[key].real, waited[key].fifo
                yield Served(
                    channel=tenant.channel,
                    is_urgent=is_urgent,
                    completed=counts.get((key, "completed"), 0),
                    dead=counts.get((key, "dead"), 0),
                    median_wait=part(real, MEDIAN) / 1000,
                    most_wait=part(real, MOST) / 1000,
                    fifo_median_wait=part(fifo, MEDIAN) / 1000,
                    fifo_most_wait=part(fifo, MOST) / 1000,
                    remark="urgent" if is_urgent else tenant.remark,
                )
