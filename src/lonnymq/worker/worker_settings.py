"""How a worker works."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lonnymq.commands import Delivery
from lonnymq.errors import InvalidLease
from lonnymq.worker.app import App

OnResult = Callable[[Delivery, BaseException | None], object]


def own_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True)
class Settings:
    """Durations in seconds."""

    app: App[Any]
    concurrency: int
    lease: float | None
    prefetch: float
    shutdown_timeout: float
    health_file: Path | None
    on_result: OnResult | None
    name: str

    def lease_of(self, queue_lease: float, longest: float) -> float:
        """What messages are dequeued with, before it is known which task they are for: the shortest
        lease. Raises InvalidLease where one is longer than the queue allows: its messages would all fail.
        """
        policies = [task.policy for task in self.app.tasks.values()]
        if self.app.raw_handler is not None:
            policies.append(self.app.raw_handler.policy)
        asked = [policy.lease_s for policy in policies if policy.lease_s is not None]
        leases = [self.lease or queue_lease, *asked]
        if max(leases) > longest:
            raise InvalidLease(
                f"the queue allows leases of up to {longest:g} s, and {max(leases):g} s are asked for",
                "ask for less, or queue.set(lease_max=...)",
            )
        return min(leases)
