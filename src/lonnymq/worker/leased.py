"""One leased message, from its dequeue until it is finished."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from lonnymq.commands import Delivery
from lonnymq.worker.stop_reason import StopReason
from lonnymq.worker.task import Handler

if TYPE_CHECKING:
    from lonnymq.worker.execute import HandlerOutcome

_extending = threading.Lock()


class LeasedMessage:
    """Times are those of time.monotonic(), in seconds.

    Each field is written by one thread: by the worker's event loop, but `is_being_extended` and
    `is_interrupt_requested` by the lease thread, and `is_completed_by_handler` and `progress` by the
    handler's. `lease_ends_at` is written by several, under a lock.
    """

    __slots__ = (
        "duration_s",
        "error",
        "handler",
        "interrupt_handler",
        "is_being_extended",
        "is_completed_by_handler",
        "is_interrupt_requested",
        "is_interrupted",
        "lease_ends_at",
        "lease_s",
        "message",
        "outcome",
        "progress",
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
        self.duration_s: float | None = None  # when the handler has finished
        self.error: BaseException | None = None  # what it raised
        self.outcome: HandlerOutcome | None = None
        self.stop_reason: StopReason | None = None
        self.is_interrupted = False
        self.interrupt_handler: Callable[[], object] | None = None
        self.is_being_extended = False
        self.is_interrupt_requested = False
        self.is_completed_by_handler = False
        self.progress: tuple[float, str | None] = (0.0, None)

    def ask_to_stop(self, reason: StopReason) -> None:
        """Let the handler know that it should stop. It still has time to."""
        if self.stop_reason is None:
            self.stop_reason = reason

    def interrupt(self, reason: StopReason) -> None:
        """Interrupt the handler, unless that was done already."""
        if not self.is_interrupted:
            self.is_interrupted = True
            self.stop_reason = reason
            if self.interrupt_handler is not None:
                self.interrupt_handler()

    def extended(self, requested_at: float) -> None:
        """Note that the lease was extended. Count from when it was requested: the server counts from later,
        so the lease lasts at least until then. Any thread may call it.
        """
        with _extending:
            self.lease_ends_at = max(self.lease_ends_at, requested_at + self.lease_s)

    def __repr__(self) -> str:
        return f"<message {self.message.id} for {self.handler.name}>"


def ids_and_tokens(messages: Iterable[LeasedMessage]) -> tuple[list[int], list[UUID]]:
    """The first two arguments of every call for several leased messages."""
    deliveries = [leased.message for leased in messages]
    return [message.id for message in deliveries], [message.token for message in deliveries]
