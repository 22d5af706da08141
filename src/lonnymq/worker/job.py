"""What a handler knows of the message that it works on, and may say of it before it returns."""

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
    """There is no message that is being worked on here."""


class Desk(Protocol):
    """Where the message lies while it is worked on."""

    @property
    def schema(self) -> str: ...
    @property
    def is_stopped(self) -> bool: ...
    def leave_to_handler(self) -> None: ...
    async def save(self, state: bytes) -> bool: ...
    def save_from_thread(self, state: bytes) -> bool: ...


class AnyJob:
    """A handler finds its own with `Job.current()`, or `AsyncJob.current()` where it is asynchronous."""

    _current: ClassVar[ContextVar[AnyJob]] = ContextVar("lonnymq job")

    def __init__(self, message: Delivery, desk: Desk) -> None:
        self.message = message
        self._desk = desk
        self._state = message.state

    @classmethod
    def current(cls) -> Self:
        """The one that the caller works on. Raises NoJob outside of handlers."""
        job = cls._current.get(None)
        if job is None:
            raise NoJob("no message is being worked on here", "ask in a handler that a worker runs")
        if not isinstance(job, cls):
            raise NoJob(
                f"the handler is {'' if isinstance(job, AsyncJob) else 'not '}asynchronous",
                f"use {type(job).__name__}.current()",
            )
        return job

    def begin(self) -> None:
        """From here on, in this context, it is the current one."""
        self._current.set(self)

    @property
    def id(self) -> int:
        """The message's."""
        return self.message.id

    @property
    def channel(self) -> str:
        """The message's."""
        return self.message.channel

    @property
    def task(self) -> str | None:
        """The task's name; None for a message of no task."""
        return (self.message.headers or {}).get(TASK_HEADER)

    @property
    def attempt(self) -> int:
        """1 is the first."""
        return self.message.attempts

    @property
    def scheduled_at(self) -> int | None:
        """The tick that a schedule made the message for, in Unix milliseconds."""
        return (self.message.headers or {}).get(SCHEDULED_AT_HEADER)

    @property
    def is_stopped(self) -> bool:
        """Whether to come to an end: for handlers that look, in long stretches that nothing interrupts."""
        return self._desk.is_stopped

    @property
    def state(self) -> Any:
        """What was saved last, by this attempt or one before; None if nothing was."""
        if self._state is None:
            return None
        try:
            return json.loads(self._state)
        except ValueError as error:
            raise BrokenContent("the state is not JSON", "read message.state, which is bytes") from error

    def _kept(self, state: bytes, *, is_ours: bool) -> None:
        if not is_ours:
            raise _lost(self.message)
        self._state = state

    def _completion(self, result: Result) -> None:
        if result is not Result.COMPLETED:
            raise _lost(self.message)
        self._desk.leave_to_handler()


class Job(AnyJob):
    """Of a handler that is a plain function."""

    def save(self, state: Any) -> None:
        """Keep a value, as JSON, for the next attempt, should there be one, whatever becomes of this
        worker.

        ```python
        job = Job.current()
        for page in range(job.state or 0, pages):
            send(page)
            job.save(page + 1)
        ```
        """
        content = encode(state).content
        self._kept(content, is_ours=self._desk.save_from_thread(content))

    def complete(self, *, conn: object) -> None:
        """Complete the message in a transaction of yours: what it writes, and the end of the message,
        are one.

            with pool.connection() as conn:
                conn.execute("UPDATE invoice SET paid = TRUE WHERE id = %s", (invoice,))
                Job.current().complete(conn=conn)

        Raises LeaseLost if the message is no longer this worker's: let the transaction roll back. It is
        the last thing to do; if the transaction does not commit, the message comes back.
        """
        drivers.check_has_transaction(conn)
        self._completion(drivers.run(conn, self._desk.schema, MessageComplete(self.id, self.message.token)))


class AsyncJob(AnyJob):
    """Of a handler that is asynchronous."""

    async def save(self, state: Any) -> None:
        """As Job.save."""
        content = encode(state).content
        self._kept(content, is_ours=await self._desk.save(content))

    async def complete(self, *, conn: object) -> None:
        """As Job.complete."""
        drivers.check_has_transaction(conn)
        command = MessageComplete(self.id, self.message.token)
        self._completion(await drivers.run_async(conn, self._desk.schema, command))


def _lost(message: Delivery) -> LeaseLost:
    return LeaseLost(
        f"message {message.id} is no longer this worker's", "let it go: its transaction must roll back"
    )
