"""Enqueues the messages of the tenants: first their backlogs, then more while these are worked off."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from threading import Event

from lonnymq.client.queue import Queue
from lonnymq.demo.tasks import serve_customer
from lonnymq.demo.tenants import DemoTenant
from lonnymq.message_options import NewMessage

URGENT_PRIORITY = 9
INTERVAL_S = 0.05
URGENT_HEADER = "urgent"


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
    """Enqueue messages of each tenant at its rate, until `stop` is set."""
    began = time.monotonic()
    sent = {(tenant.channel, is_urgent): 0 for tenant in tenants for is_urgent in (False, True)}
    while not stop.wait(INTERVAL_S):
        passed = time.monotonic() - began
        batch: list[NewMessage] = []
        for tenant in tenants:
            for is_urgent, rate in ((False, tenant.rate), (True, tenant.urgent_rate)):
                wanted = int(passed * rate) - sent[tenant.channel, is_urgent]
                batch += [_message(tenant, is_urgent=is_urgent) for _ in range(wanted)]
                sent[tenant.channel, is_urgent] += wanted
        if batch:
            queue.enqueue_many(batch)


def _message(tenant: DemoTenant, *, is_urgent: bool) -> NewMessage:
    using = serve_customer.using(
        channel=tenant.channel,
        priority=URGENT_PRIORITY if is_urgent else None,
        headers={URGENT_HEADER: True} if is_urgent else None,
    )
    return using.message(0)
