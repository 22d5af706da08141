"""A message in the worker's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from lonnymq.commands import Delivery
from lonnymq.worker.task import Handler


class Stop(Enum):
    """Why a handler is not to go on."""

    LOST = "its lease was lost"
    CANCELLED = "its message was cancelled"
    TIMEOUT = "it took longer than it may"
    SHUTDOWN = "the worker shuts down"


class Holding:
    """From its dequeue until it is finished or given up. Times are those of the loop."""

    __slots__ = (
        "handler",
        "interrupt",
        "is_being_extended",
        "is_left_to_handler",
        "lease",
        "message",
        "received",
        "started",
        "stopped",
        "until",
    )

    def __init__(self, message: Delivery, handler: Handler, lease: float, received: float) -> None:
        self.message = message
        self.handler = handler
        self.lease = lease
        self.received = received
        self.until = received + lease
        self.started: float | None = None
        self.stopped: Stop | None = None
        self.interrupt: Callable[[], object] | None = None
        self.is_being_extended = False
        self.is_left_to_handler = False

    def stop(self, why: Stop) -> None:
        """Interrupt the handler, once."""
        if self.stopped is None:
            self.stopped = why
            if self.interrupt is not None:
                self.interrupt()

    def extended(self, asked: float) -> None:
        """The lease counts from when the worker asked: the server counts from later."""
        self.until = max(self.until, asked + self.lease)

    def __repr__(self) -> str:
        return f"<message {self.message.id} for {self.handler.name}>"


def now() -> float:
    return asyncio.get_running_loop().time()
