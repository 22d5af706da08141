"""Why a handler should stop."""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """Why a handler should stop: `job.stop_reason`."""

    SHUTDOWN = "shutdown"
    """The worker shuts down."""
    CANCELLED = "cancelled"
    """The message was cancelled."""
    LEASE_LOST = "lease lost"
    """The lease was lost: another worker may have the message."""
    TIMEOUT = "timeout"
    """The handler exceeded its timeout."""
