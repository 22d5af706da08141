"""How a worker works."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lonnymq.commands import Delivery
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

    def lease_of(self, queue_lease: float) -> float:
        """What messages are dequeued with, before it is known which task they are for: the shortest
        lease.
        """
        policies = [task.policy for task in self.app.tasks.values()]
        if self.app.raw_handler is not None:
            policies.append(self.app.raw_handler.policy)
        asked = [policy.lease_s for policy in policies if policy.lease_s is not None]
        return min([self.lease or queue_lease, *asked])
