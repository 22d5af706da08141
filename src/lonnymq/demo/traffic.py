"""What the tenants send: their backlogs first, then more while these are worked off."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from threading import Event

from lonnymq.client.queue import Queue
from lonnymq.demo.tasks import serve_customer
from lonnymq.demo.tenants import Tenant
from lonnymq.message_options import NewMessage

PRIORITY = 9
STEP_S = 0.05
URGENT_HEADER = "urgent"


def prepare(queue: Queue, tenants: Sequence[Tenant]) -> None:
    """The limits, and what waits at the beginning, one tenant after the other: the order of a plain queue."""
    for tenant in tenants:
        if tenant.max_concurrency or tenant.release_interval:
            queue.channel(tenant.channel).set(
                max_concurrency=tenant.max_concurrency, release_interval=tenant.release_interval
            )
    queue.enqueue_many(message for tenant in tenants for message in _backlog(tenant))


def _backlog(tenant: Tenant) -> Iterator[NewMessage]:
    make = serve_customer.using(channel=tenant.channel).message
    for number in range(tenant.backlog):
        yield make(number, fails=number < tenant.failing)


def go_on(queue: Queue, tenants: Sequence[Tenant], over: Event) -> None:
    """Each at its rate, until it is over."""
    began = time.monotonic()
    sent = {(tenant.channel, is_urgent): 0 for tenant in tenants for is_urgent in (False, True)}
    while not over.wait(STEP_S):
        passed = time.monotonic() - began
        batch: list[NewMessage] = []
        for tenant in tenants:
            for is_urgent, rate in ((False, tenant.rate), (True, tenant.urgent_rate)):
                wanted = int(passed * rate) - sent[tenant.channel, is_urgent]
                batch += [_one(tenant, is_urgent=is_urgent) for _ in range(wanted)]
                sent[tenant.channel, is_urgent] += wanted
        if batch:
            queue.enqueue_many(batch)


def _one(tenant: Tenant, *, is_urgent: bool) -> NewMessage:
    using = serve_customer.using(
        channel=tenant.channel,
        priority=PRIORITY if is_urgent else None,
        headers={URGENT_HEADER: True} if is_urgent else None,
    )
    return using.message(0)
