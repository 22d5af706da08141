"""Real traffic: tenants, consumers in threads, and what the history has of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from lonnymq import NewMessage, Queue
from lonnymq.commands import FinishedMessage
from lonnymq.simulation.runs import Run, message_runs

CONSUMERS = 5
FLAKY = {"trickle"}
"""Whose first attempts fail, and are retried 300 ms later."""


class Tenant(NamedTuple):
    """Sends its `messages` at once, or one every `every_ms`; each takes `took_ms`."""

    channel: str
    messages: int
    took_ms: int
    every_ms: int = 0


TENANTS = (
    Tenant("bulk", 100, 60),
    Tenant("limited", 30, 120),
    Tenant("rated", 24, 40),
    Tenant("steady", 60, 80, every_ms=60),
    Tenant("trickle", 30, 30, every_ms=120),
)
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "limited": {"max_concurrency": 1},
    "rated": {"rate": "4/s"},
    "trickle": {"weight": 2.0},
}
OTHER_POLICIES: Mapping[str, Mapping[str, Any]] = {
    "limited": {"max_concurrency": 3},
    "rated": {"rate": "10/s"},
}


def serve_all(queue: Queue, tenants: Iterable[Tenant] = TENANTS) -> list[FinishedMessage]:
    """Send everything, and serve until all of it is done."""
    tenants = tuple(tenants)
    total = sum(tenant.messages for tenant in tenants)
    done = threading.Semaphore(0)
    stop = threading.Event()

    def consume(number: int) -> None:
        while not stop.is_set():
            for message in queue.dequeue(consumer=f"consumer {number}", wait=0.2):
                time.sleep(message.payload / 1000)
                if message.attempts == 1 and message.channel in FLAKY:
                    queue.retry(message, delay=0.3, error="once")
                else:
                    queue.complete(message)
                    done.release()

    with ThreadPoolExecutor(CONSUMERS + 1) as threads:
        served = [threads.submit(consume, number) for number in range(CONSUMERS)]
        threads.submit(_send, queue, tenants).result()
        try:
            for _ in range(total):
                while not done.acquire(timeout=0.2):
                    for one in served:
                        assert one.running() or one.result(), "a consumer has ended"
        finally:
            stop.set()
        for one in served:
            one.result()
    return list(queue.history(limit=10_000))


def _send(queue: Queue, tenants: Iterable[Tenant]) -> None:
    began = time.monotonic()
    planned = sorted(
        (number * tenant.every_ms / 1000, tenant) for tenant in tenants for number in range(tenant.messages)
    )
    while planned:
        now = time.monotonic() - began
        due = [tenant for at, tenant in planned if at <= now]
        if due:
            queue.enqueue_many([NewMessage(one.took_ms, channel=one.channel) for one in due])
            planned = planned[len(due) :]
        else:
            time.sleep(planned[0][0] - now)


def runs_of(history: Iterable[FinishedMessage]) -> list[Run]:
    found: list[Run] = []
    for one in history:
        assert one.dequeued_at is not None
        found += message_runs(
            one.id,
            one.channel,
            created_at=one.created_at,
            past_runs=[(past.due_at, past.dequeued_at, past.ended_at) for past in one.past_runs],
            last_run=(one.dequeue_at, one.dequeued_at, one.finished_at),
            attempts=one.attempts,
            lane=one.lane,
            priority=one.priority,
            cost=one.cost,
            consumer=one.consumer,
        )
    return found
