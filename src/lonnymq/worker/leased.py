"""One leased message, from its dequeue until it is finished."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from lonnymq.commands import Delivery
from lonnymq.worker.task import Handler


class StopReason(Enum):
    """Why a handler must stop."""

    LOST = "its lease was lost"
    CANCELLED = "its message was cancelled"
    TIMEOUT = "it exceeded its timeout"
    SHUTDOWN = "the worker shuts down"


class LeasedMessage:
    """Times are those of the event loop's clock, in seconds."""

    __slots__ = (
        "handler",
        "interrupt",
        "is_being_extended",
        "is_completed_by_handler",
        "lease_ends_at",
        "lease_s",
        "message",
        "received_at",
        "started_at",
        "stop_reason",
    )

    def __init__(self, message: Delivery, handler: Handler, lease_s: float, received_at: float) -> None:
        self.message = message
        self.handler = handler
        self.lease_s = lease_s
        self.received_at = received_at
        self.lease_ends_at = received_at + lease_s
        self.started_at: float | None = None
        self.stop_reason: StopReason | None = None
        self.interrupt: Callable[[], object] | None = None
        self.is_being_extended = False
        self.is_completed_by_handler = False

    def stop(self, reason: StopReason) -> None:
        """Interrupt the handler, unless that was done already."""
        if self.stop_reason is None:
            self.stop_reason = reason
            if self.interrupt is not None:
                self.interrupt()

    def extended(self, requested_at: float) -> None:
        """Note that the lease was extended. Count from when it was requested: the server counts from later,
        so the lease lasts at least until then.
        """
        self.lease_ends_at = max(self.lease_ends_at, requested_at + self.lease_s)

    def __repr__(self) -> str:
        return f"<message {self.message.id} for {self.handler.name}>"


def loop_time() -> float:
    return asyncio.get_running_loop().time()
