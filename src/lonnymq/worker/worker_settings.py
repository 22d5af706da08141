"""The options of a worker, checked."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lonnymq.client.consume import lane_names
from lonnymq.client.produce import check_many, check_work_options
from lonnymq.commands import Delivery
from lonnymq.errors import InvalidArgument, InvalidLease
from lonnymq.worker.app import App

if TYPE_CHECKING:
    from lonnymq.prometheus.server import MetricsSettings

OnResult = Callable[[Delivery, BaseException | None], object]

NAME_MAX_BYTES = 255
UNKNOWN_TASK_TIMEOUT_S = 24 * 60 * 60
PORT_MAX = 65_535


def consumer_name(name: object) -> str:
    """The name of a worker. Checked here, because the queue would refuse each of its dequeues."""
    if not name:
        return f"{socket.gethostname()}:{os.getpid()}"
    if not isinstance(name, str) or "\0" in name or len(name.encode(errors="replace")) > NAME_MAX_BYTES:
        raise InvalidArgument(
            f"name: {name!r:.300} is not a name", f"give a str of at most {NAME_MAX_BYTES} bytes, without NUL"
        )
    return name


def lanes_to_serve(lanes: Iterable[str] | None) -> Sequence[str] | None:
    """The names of the lanes, checked; None for all."""
    names = lane_names(lanes)
    if names == []:
        raise InvalidArgument("lanes: the list is empty", "name the lanes to serve, or give None for all")
    for name in names or ():
        check_work_options({"lane": name})
    return names


def metrics_settings(
    port: int | None, host: str, channels: int | Iterable[str] | None, *, is_about_queue: bool
) -> MetricsSettings | None:
    """Where the metrics are exported; None: nowhere. Raises MissingExtra without the library."""
    if port is None:
        return None
    if type(port) is not int or not 0 <= port <= PORT_MAX:
        raise InvalidArgument(
            f"metrics_port: {port!r} is not a port", f"give an int up to {PORT_MAX:,}; 0: one that is free"
        )
    if not isinstance(channels, int | None):
        check_many(channels, "channels")
        channels = list(channels)
    elif isinstance(channels, int) and (type(channels) is not int or channels < 1):
        raise InvalidArgument(
            f"metrics_channels: {channels!r} is not a whole number of 1 or more",
            "give how many of the loudest channels to export, or their names",
        )
    from lonnymq.prometheus.server import MetricsSettings

    return MetricsSettings(port, host, channels, is_about_queue)


@dataclass(frozen=True)
class WorkerSettings:
    """Durations are in seconds."""

    app: App
    concurrency: int
    lease: float | None
    prefetch: float
    shutdown_timeout: float
    health_file: Path | None
    on_result: OnResult | None
    name: str
    lanes: Sequence[str] | None = None
    channel_share: float | None = None
    unknown_task_timeout: float | None = None
    metrics: MetricsSettings | None = None

    @property
    def lanes_text(self) -> str:
        if self.lanes is None:
            return "all lanes"
        return f"the lane{'' if len(self.lanes) == 1 else 's'} {', '.join(self.lanes)}"

    @property
    def channel_slots(self) -> int | None:
        """How many messages of one channel may run at the same time."""
        return None if self.channel_share is None else max(1, int(self.concurrency * self.channel_share))

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
