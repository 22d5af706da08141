"""What a handler may raise to say how its message ends, and what is raised in handlers."""

from __future__ import annotations

from lonnymq.client.times import waiting
from lonnymq.errors import LonnyMQError
from lonnymq.message_options import Duration


class Retry(Exception):
    """Try again: after so long, or after the task's backoff.

    It uses up an attempt, as any failure does, unless `counts=False`: for what is not ready yet and will
    be.
    """

    def __init__(self, reason: str = "", *, after: Duration | None = None, counts: bool = True) -> None:
        super().__init__(reason)
        self.after_ms = None if after is None else waiting(after)
        self.counts = counts


class Discard(Exception):
    """Do not try again: the message goes. A history has it as cancelled, with the reason."""


class LeaseLost(LonnyMQError):
    """The message is no longer this worker's: somebody else has it, or may. What was done must not count
    twice: let the transaction roll back.
    """


class JobStopped(BaseException):
    """Raised in a handler that runs in a thread: it took too long, its lease was lost or its message
    cancelled, or the worker shuts down. An asynchronous handler is cancelled instead, as any task of
    asyncio's is.

    Not an Exception, so that `except Exception` does not keep a handler going.
    """


class HandlersHang(LonnyMQError):
    """The worker ended: handlers that were stopped and do not end hold all of its threads."""
