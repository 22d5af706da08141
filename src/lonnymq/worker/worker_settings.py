"""The options of a worker, checked."""

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


def default_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True)
class WorkerSettings:
    """Durations are in seconds."""

    app: App[Any]
    concurrency: int
    lease: float | None
    prefetch: float
    shutdown_timeout: float
    health_file: Path | None
    on_result: OnResult | None
    name: str

    def dequeue_lease(self, queue_lease: float, longest: float) -> float:
        """The lease to dequeue with: the shortest of all handlers, because the task of a message is not known
        before. Raises InvalidLease if a handler's is longer than the queue allows: its messages would fail.
        """
        policies = [task.policy for task in self.app.tasks.values()]
        if self.app.raw_handler is not None:
            policies.append(self.app.raw_handler.policy)
        by_handlers = [policy.lease_s for policy in policies if policy.lease_s is not None]
        leases = [self.lease or queue_lease, *by_handlers]
        if max(leases) > longest:
            raise InvalidLease(
                f"a lease of {max(leases):g} s is longer than the queue allows, which is {longest:g} s",
                "use a shorter lease, or raise the limit with queue.set(lease_max=...)",
            )
        return min(leases)
