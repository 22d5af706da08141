"""What a handler can find out about its message, and do with it before it returns."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol, Self

from lonnymq.adapters import drivers
from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import Delivery, MessageComplete, Result
from lonnymq.errors import BrokenContent, LonnyMQError
from lonnymq.payload import encode
from lonnymq.worker.exceptions import LeaseLost
from lonnymq.worker.task import SCHEDULED_AT_HEADER


class NoJob(LonnyMQError, LookupError):
    """The caller is not a handler that a worker runs."""


class JobContext(Protocol):
    """What a job needs from the worker that runs it; `save` returns whether the lease still holds."""

    @property
    def schema(self) -> str: ...
    @property
    def is_stopped(self) -> bool: ...
    def completed_by_handler(self) -> None: ...
    async def save(self, state: bytes) -> bool: ...
    def save_from_thread(self, state: bytes) -> bool: ...


class AnyJob:
    """A handler gets its job with `Job.current()`, or with `AsyncJob.current()` if it is asynchronous."""

    _current: ClassVar[ContextVar[AnyJob]] = ContextVar("lonnymq job")

    def __init__(self, message: Delivery, context: JobContext) -> None:
        self.message = message
        self._context = context
        self._state = message.state

    @classmethod
    def current(cls) -> Self:
        """The job of the handler that calls this. Raises NoJob outside of handlers."""
        job = cls._current.get(None)
        if job is None:
            raise NoJob("there is no current job", "call this in a handler that a worker runs")
        if not isinstance(job, cls):
            raise NoJob(
                f"the handler is {'' if isinstance(job, AsyncJob) else 'not '}asynchronous",
                f"use {type(job).__name__}.current()",
            )
        return job

    def make_current(self) -> None:
        """Make it the current job of this context."""
        self._current.set(self)

    @property
    def id(self) -> int:
        """The message's id."""
        return self.message.id

    @property
    def channel(self) -> str:
        """The message's channel."""
        return self.message.channel

    @property
    def task(self) -> str | None:
        """The task's name; None for a message without a task."""
        return (self.message.headers or {}).get(TASK_HEADER)

    @property
    def attempt(self) -> int:
        """The number of this attempt; 1 is the first."""
        return self.message.attempts

    @property
    def scheduled_at(self) -> int | None:
        """The time that a schedule made the message for, in Unix milliseconds; None if no schedule did."""
        return (self.message.headers or {}).get(SCHEDULED_AT_HEADER)

    @property
    def is_stopped(self) -> bool:
        """Whether the handler must stop. A long computation that cannot be interrupted should check it."""
        return self._context.is_stopped

    @property
    def state(self) -> Any:
        """What this attempt or an earlier one saved last; None if nothing was saved."""
        if self._state is None:
            return None
        try:
            return json.loads(self._state)
        except ValueError as error:
            raise BrokenContent("the state is not JSON", "read message.state, which is bytes") from error

    def _note_saved(self, state: bytes, *, is_saved: bool) -> None:
        if not is_saved:
            raise _lease_lost(self.message)
        self._state = state

    def _note_completed(self, result: Result) -> None:
        if result is not Result.COMPLETED:
            raise _lease_lost(self.message)
        self._context.completed_by_handler()


class Job(AnyJob):
    """The job of a handler that is a plain function."""

    def save(self, state: Any) -> None:
        """Store a value, as JSON, for the next attempt, if there is one. It survives a crash of this worker,
        and extends the lease.

        ```python
        job = Job.current()
        for page in range(job.state or 0, pages):
            send(page)
            job.save(page + 1)
        ```
        """
        content = encode(state).content
        self._note_saved(content, is_saved=self._context.save_from_thread(content))

    def complete(self, *, conn: object) -> None:
        """Complete the message in your own transaction, together with what that writes.

            with pool.connection() as conn:
                conn.execute("UPDATE invoice SET paid = TRUE WHERE id = %s", (invoice,))
                Job.current().complete(conn=conn)

        Raises LeaseLost if this worker has lost the lease: let the transaction roll back. Call it last. If
        the transaction does not commit, the message is served again.
        """
        drivers.check_has_transaction(conn)
        self._note_completed(
            drivers.run(conn, self._context.schema, MessageComplete(self.id, self.message.token))
        )


class AsyncJob(AnyJob):
    """The job of an asynchronous handler."""

    async def save(self, state: Any) -> None:
        """As Job.save."""
        content = encode(state).content
        self._note_saved(content, is_saved=await self._context.save(content))

    async def complete(self, *, conn: object) -> None:
        """As Job.complete."""
        drivers.check_has_transaction(conn)
        command = MessageComplete(self.id, self.message.token)
        self._note_completed(await drivers.run_async(conn, self._context.schema, command))


def _lease_lost(message: Delivery) -> LeaseLost:
    return LeaseLost(f"this worker lost the lease on message {message.id}", "roll back the transaction")
