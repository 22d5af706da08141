"""Enqueues the messages of the tenants: first their backlogs, then more while these are worked off."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from threading import Event

from lonnymq.client.queue import Queue
from lonnymq.demo.tasks import serve_customer
from lonnymq.demo.tenants import DemoTenant
from lonnymq.message_options import NewMessage

URGENT_PRIORITY = 9
INTERVAL_S = 0.05
URGENT_HEADER = "urgent"
NOISY_INTERVAL_S = 1.0
REFILL_BELOW = 0.25


def enqueue_backlogs(queue: Queue, tenants: Sequence[DemoTenant]) -> None:
    """Set the limits, and enqueue the backlogs one tenant after the other."""
    for tenant in tenants:
        if tenant.max_concurrency or tenant.rate_limit:
            queue.channel(tenant.channel).set(
                max_concurrency=tenant.max_concurrency or None, rate=tenant.rate_limit or None
            )
    queue.enqueue_many(message for tenant in tenants for message in _backlog(tenant))


def _backlog(tenant: DemoTenant) -> Iterator[NewMessage]:
    make = serve_customer.using(channel=tenant.channel).message
    for number in range(tenant.backlog):
        yield make(number, fails=number < tenant.failing)


def keep_enqueueing(queue: Queue, tenants: Sequence[DemoTenant], stop: Event) -> None:
    """Enqueue messages of each tenant at its rates, until `stop` is set."""
    began = time.monotonic()
    sent: Counter[tuple[str, str]] = Counter()
    while not stop.wait(INTERVAL_S):
        passed = time.monotonic() - began
        batch: list[NewMessage] = []
        for tenant in tenants:
            for kind, rate in (
                ("plain", tenant.rate),
                ("urgent", tenant.urgent_rate),
                ("failing", tenant.failing_rate),
            ):
                before, wanted = sent[tenant.channel, kind], int(passed * rate)
                batch += [
                    _message(tenant, order, is_urgent=kind == "urgent", fails=kind == "failing")
                    for order in range(before, wanted)
                ]
                sent[tenant.channel, kind] = wanted
        if batch:
            queue.enqueue_many(batch)


def keep_noisy(queue: Queue, tenant: DemoTenant, stop: Event) -> None:
    """Whenever the tenant has worked off most of its backlog, enqueue as many messages again."""
    while not stop.wait(NOISY_INTERVAL_S):
        if queue.channel(tenant.channel).stats().waiting < tenant.backlog * REFILL_BELOW:
            queue.enqueue_many(_backlog(tenant))


def _message(tenant: DemoTenant, order: int, *, is_urgent: bool, fails: bool) -> NewMessage:
    using = serve_customer.using(
        channel=tenant.channel,
        priority=URGENT_PRIORITY if is_urgent else None,
        headers={URGENT_HEADER: True} if is_urgent else None,
    )
    return using.message(order, fails=True) if fails else using.message(order)
