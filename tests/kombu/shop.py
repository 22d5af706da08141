"""A Celery app as a team has it: only its URL is ours. The tests start workers of it."""

from __future__ import annotations

import os
import time
from typing import Any

import psycopg
from celery import Celery, chord

import lonnymq.kombu

DSN = os.environ["SHOP_DSN"]

__all__ = ["app", "chord", "double", "spread", "total", "work"]

lonnymq.kombu.register()
app = Celery("shop", broker=f"lonnymq+{DSN}")
app.conf.update(
    result_backend=f"lonnymq.kombu.results:ResultBackend+{DSN}",
    broker_transport_options={"lease": 2},
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    broker_connection_retry_on_startup=True,
)


@app.task(bind=True)  # type: ignore[untyped-decorator]
def work(self: Any, number: int, seconds: float) -> str:
    """Record that it ran, for whom, and when."""
    with psycopg.connect(DSN, autocommit=True) as conn:
        conn.execute("INSERT INTO started (number) VALUES (%s)", [number])
        time.sleep(seconds)
        tenant = self.request.get("channel") or "default"
        conn.execute("INSERT INTO finished (number, tenant) VALUES (%s, %s)", [number, tenant])
    return tenant


@app.task  # type: ignore[untyped-decorator]
def spread(numbers: list[int]) -> None:
    """Its subtasks stay in the channel of its tenant."""
    for number in numbers:
        work.delay(number, 0)


@app.task  # type: ignore[untyped-decorator]
def total(parts: list[int]) -> int:
    return sum(parts)


@app.task  # type: ignore[untyped-decorator]
def double(number: int) -> int:
    return 2 * number
