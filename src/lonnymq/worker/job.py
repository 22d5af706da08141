"""What a handler can find out about its message, and do with it before it returns."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol, Self

from lonnymq.adapters import drivers
from lonnymq.client.calls import ask, walk, walk_async
from lonnymq.client.consume import completion
from lonnymq.client.observers import Observer, observed
from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import BatchSummary, Delivery, Result
from lonnymq.errors import BrokenContent, InvalidArgument, LonnyMQError
from lonnymq.message_options import Duration
from lonnymq.payload import encode
from lonnymq.worker.exceptions import LeaseLost
from lonnymq.worker.stop_reason import StopReason
from lonnymq.worker.task import SCHEDULED_AT_HEADER


class NoJob(LonnyMQError, LookupError):
    """The caller is not a handler that a worker runs."""


class JobContext(Protocol):
    """What a job needs from the worker that runs it; `save` returns whether the lease still holds."""

    @property
    def schema(self) -> str: ...
    @property
    def observers(self) -> Sequence[Observer]: ...
    @property
    def stop_reason(self) -> StopReason | None: ...
    @property
    def is_interrupted(self) -> bool: ...
    def completed_by_handler(self) -> None: ...
    def progress(self, fraction: float, note: str | None) -> None: ...
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
            raise NoJob(
                "there is no current job",
                "call this in a handler that a worker runs, or in a test in `with lonnymq.testing.job():`",
            )
        job = job.as_kind(cls)
        if not isinstance(job, cls):
            raise NoJob(
                f"the handler is {'' if isinstance(job, AsyncJob) else 'not '}asynchronous",
                f"use {type(job).__name__}.current()",
            )
        return job

    def as_kind(self, kind: type[AnyJob]) -> AnyJob:  # noqa: ARG002
        """The job for a caller that asks for this kind: always itself, except in tests."""
        return self

    def make_current(self) -> None:
        """Make it the current job of this context."""
        self._current.set(self)

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Make it the current job in a block."""
        token = self._current.set(self)
        try:
            yield
        finally:
            self._current.reset(token)

    @property
    def id(self) -> int:
        """The message's id."""
        return self.message.id

    @property
    def schema(self) -> str:
        """The schema of the queue."""
        return self._context.schema

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
    def batch(self) -> BatchSummary | None:
        """The batch whose callback this is, with its counts when it was enqueued; None for other messages."""
        return BatchSummary.of(self.message.headers)

    @property
    def should_stop(self) -> bool:
        """Whether the handler should stop. True as soon as the worker begins to shut down, while there is
        still time to finish. A handler that takes long should check it, save its state and raise JobStopped,
        which releases the message for another worker and uses up no attempt.

        ```python
        if job.should_stop:
            raise JobStopped
        ```
        """
        return self._context.stop_reason is not None

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the handler should stop; None while it may go on."""
        return self._context.stop_reason

    @property
    def is_interrupted(self) -> bool:
        """Whether the handler has been interrupted: it was cancelled, or JobStopped was raised in its thread.
        A computation in C, where nothing can be raised, should check it and return.
        """
        return self._context.is_interrupted

    @property
    def state(self) -> Any:
        """What this attempt or an earlier one saved last; None if nothing was saved."""
        if self._state is None:
            return None
        try:
            return json.loads(self._state)
        except ValueError as error:
            raise BrokenContent("the state is not JSON", "read message.state, which is bytes") from error

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Report how far the work is: a number from 0 to 1, and a note for people. Others see it with
        `queue.status(id)` and `lonnymq messages show`, until this attempt is over.

        It is cheap, and returns at once: the worker writes the last report of each message about once per
        second. Do not await it.

        ```python
        job.progress(done / total, "rendering")
        ```
        """
        if type(fraction) not in {int, float} or not 0 <= fraction <= 1:
            raise InvalidArgument(f"fraction: {fraction!r} is not a number from 0 to 1", "give done / total")
        if note is not None and not isinstance(note, str):
            raise InvalidArgument(f"note: {note!r} is not a string", "give a str, or leave it out")
        self._context.progress(float(fraction), note)

    def _note_saved(self, state: bytes, *, is_saved: bool) -> None:
        if not is_saved:
            raise _lease_lost(self.message)
        self._state = state

    def _completion(self, result: Any, keep_result: Duration | None) -> Generator[Any, Any, Result]:
        command = completion(self.message, result, keep_result)
        context = self._context
        return observed(context.observers, context.schema, ask(command).steps, [self.message])

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

    def complete(self, *, conn: object, result: Any = None, keep_result: Duration | None = None) -> None:
        """Complete the message in your own transaction, together with what that writes.

            with pool.connection() as conn:
                conn.execute("UPDATE invoice SET paid = TRUE WHERE id = %s", (invoice,))
                Job.current().complete(conn=conn)

        Raises LeaseLost if this worker has lost the lease: let the transaction roll back. Call it last. If
        the transaction does not commit, the message is served again.

        A `result` is kept as a return value is: for as long as the task or the call says, or for
        `keep_result`.
        """
        drivers.check_has_transaction(conn)
        steps = self._completion(result, keep_result)
        self._note_completed(walk(steps, lambda command: drivers.run(conn, self._context.schema, command)))


class AsyncJob(AnyJob):
    """The job of an asynchronous handler."""

    async def save(self, state: Any) -> None:
        """As Job.save."""
        content = encode(state).content
        self._note_saved(content, is_saved=await self._context.save(content))

    async def complete(
        self, *, conn: object, result: Any = None, keep_result: Duration | None = None
    ) -> None:
        """As Job.complete."""
        drivers.check_has_transaction(conn)
        steps = self._completion(result, keep_result)
        self._note_completed(
            await walk_async(steps, lambda command: drivers.run_async(conn, self._context.schema, command))
        )


def _lease_lost(message: Delivery) -> LeaseLost:
    return LeaseLost(f"this worker lost the lease on message {message.id}", "roll back the transaction")
