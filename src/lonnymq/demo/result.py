"""The results of the demo, tenant by tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from lonnymq.demo.tenants import DemoTenant
from lonnymq.demo.traffic import URGENT_HEADER
from lonnymq.demo.waits import StartedMessage, waits
from lonnymq.quantile import quantile

# A retry changes dequeue_at: a message with several attempts counts as arrived when it was created.
HISTORY = """
    SELECT channel, headers ? %s AS is_urgent, id, outcome, finished_at,
        COALESCE(first_dequeued_at, dequeued_at) AS started,
        CASE WHEN attempts = 1 THEN GREATEST(created_at, dequeue_at) ELSE created_at END AS arrived
    FROM lonnymq.history
"""
Key = tuple[str, bool]
"""A channel, and whether the message was urgent."""


@dataclass(frozen=True)
class TenantResult:
    """One tenant, or the urgent messages of one. Waits are in seconds: the median and the 95th percentile."""

    channel: str
    is_urgent: bool
    completed: int
    dead: int
    median_wait: float
    p95_wait: float
    fifo_median_wait: float
    fifo_p95_wait: float
    remark: str


@dataclass(frozen=True)
class DemoResult:
    tenants: tuple[TenantResult, ...]
    messages: int
    seconds: float


@dataclass(frozen=True)
class DemoMessage:
    key: Key
    outcome: str
    started: StartedMessage[Key]
    finished_at: int


def read_history(dsn: str) -> list[DemoMessage]:
    with psycopg.connect(dsn, row_factory=namedtuple_row) as conn:
        return [_finished(row) for row in conn.execute(HISTORY, (URGENT_HEADER,))]


def _finished(row: Any) -> DemoMessage:  # noqa: ANN401 - a namedtuple of the query's columns
    key = row.channel, row.is_urgent
    return DemoMessage(
        key, row.outcome, StartedMessage(key, row.id, row.arrived, row.started), row.finished_at
    )


def summarize(tenants: Sequence[DemoTenant], finished: Sequence[DemoMessage]) -> DemoResult:
    begin = min(message.started.started for message in finished)
    end = max(message.finished_at for message in finished)
    return DemoResult(
        tuple(_tenant_results(tenants, finished)), len(finished), round((end - begin) / 1000, 1)
    )


def _tenant_results(tenants: Sequence[DemoTenant], finished: Sequence[DemoMessage]) -> Iterator[TenantResult]:
    found = waits([message.started for message in finished])
    counts = Counter((message.key, message.outcome) for message in finished)
    for tenant in tenants:
        for is_urgent in (False, True):
            key = tenant.channel, is_urgent
            if key in found:
                real, fifo = found[key].real, found[key].fifo
                yield TenantResult(
                    channel=tenant.channel,
                    is_urgent=is_urgent,
                    completed=counts[key, "completed"],
                    dead=counts[key, "dead"],
                    median_wait=quantile(real, 0.5) / 1000,
                    p95_wait=quantile(real, 0.95) / 1000,
                    fifo_median_wait=quantile(fifo, 0.5) / 1000,
                    fifo_p95_wait=quantile(fifo, 0.95) / 1000,
                    remark="urgent" if is_urgent else tenant.remark,
                )
