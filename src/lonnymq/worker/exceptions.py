"""What a handler may raise to say what happens to its message, and what is raised in handlers."""

from __future__ import annotations

from lonnymq.client.times import waiting
from lonnymq.errors import LonnyMQError
from lonnymq.message_options import Duration


class Retry(Exception):
    """Raise it to have the message tried again: after `after`, or after the task's backoff.

    It uses up an attempt, as any failure does. With `counts=False` it does not: for work that is not ready
    yet but will be.
    """

    def __init__(self, reason: str = "", *, after: Duration | None = None, counts: bool = True) -> None:
        super().__init__(reason)
        self.after_ms = None if after is None else waiting(after)
        self.counts = counts


class Fail(Exception):
    """Raise it if another attempt would fail too: the message becomes a dead letter now, with the reason as
    its error, whatever attempts are left.
    """


class Discard(Exception):
    """Raise it to have the message removed without another attempt. The history, if one is kept, shows it as
    cancelled, with the reason.
    """


class LeaseLost(LonnyMQError):
    """The worker lost the lease on the message, and another consumer may have it. Roll back the transaction,
    so that the work does not count twice.
    """


class JobStopped(BaseException):
    """Raised in a handler that runs in a thread, to interrupt it: it exceeded its timeout, its lease was
    lost, its message was cancelled, or the worker shuts down. An asynchronous handler is cancelled instead,
    as any asyncio task is.

    A handler whose `job.should_stop` is true may raise it before that. Its message is released, at its old
    place in the queue, and no attempt is used up.

    It is not an Exception, so that `except Exception` does not keep a handler running.
    """


class HandlersStuck(LonnyMQError):
    """The worker stopped because handlers that could not be interrupted occupy all of its threads."""
