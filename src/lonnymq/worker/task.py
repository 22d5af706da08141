"""A function whose calls can be queued."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from lonnymq.client.produce import TASK_HEADER, NewMessage, OnFull
from lonnymq.client.times import Duration
from lonnymq.commands import Delivery
from lonnymq.errors import InvalidArgument
from lonnymq.payload import HEADER, encode
from lonnymq.worker.arguments import Arguments
from lonnymq.worker.cron import CronMessage
from lonnymq.worker.handler_policy import Policy

SCHEDULED_AT_HEADER = "scheduled-at"

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
"""What an enqueue gives: a Created, or an awaitable of one."""


class Handler(Protocol):
    """What a worker runs for a message."""

    @property
    def name(self) -> str: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def is_async(self) -> bool: ...
    def call_for(self, message: Delivery) -> Callable[[], Any]: ...


class Sending(Protocol[C]):
    """Where a task's messages go: the app's queue, or in tests the task itself."""

    def send(
        self, task: Task[..., Any, C], message: NewMessage, conn: object | None, on_full: OnFull
    ) -> C: ...


@dataclass(frozen=True)
class Options:
    """What a call may say differently than its task. `channel` and `max_attempts` None: as the task
    says.
    """

    channel: str | None = None
    run_at: datetime | None = None
    delay: Duration | None = None
    priority: int | None = None
    dedupe_key: str | None = None
    headers: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    cost: int | None = None
    lane: str | None = None
    on_full: OnFull = "raise"


class Task(Generic[P, R, C]):
    """Called, it is the function that it was made of; `enqueue` takes the same arguments and queues the
    call.
    """

    def __init__(self, function: Callable[P, R], name: str, policy: Policy, sending: Sending[C]) -> None:
        self.function = function
        self.name = name
        self.policy = policy
        self.is_async = is_async(function)
        check_runs_when_called(function)
        self._arguments = Arguments(function)
        self.sending = sending
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Queue a call of it. Raises ChannelFull when its channel is full.

        ```python
        send_invoice.enqueue(7)
        ```
        """
        return self.sending.send(self, self.message(*args, **kwargs), None, "raise")

    def message(self, *args: P.args, **kwargs: P.kwargs) -> NewMessage:
        """The message that a call becomes: for enqueue_many.

        ```python
        queue.enqueue_many(send_invoice.message(id) for id in ids)
        ```
        """
        return self.message_of(Options(), args, kwargs)

    def using(
        self,
        *,
        channel: str | None = None,
        run_at: datetime | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        cost: int | None = None,
        lane: str | None = None,
        dedupe_key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        max_attempts: int | None = None,
        on_full: OnFull = "raise",
        conn: object | None = None,
    ) -> Using[P, C]:
        """As the task, but for what is said here; each option is that of Queue.enqueue.

        ```python
        send_invoice.using(channel="acme", delay=60).enqueue(7)
        ```
        """
        options = Options(
            channel, run_at, delay, priority, dedupe_key, headers, max_attempts, cost, lane, on_full
        )
        return Using(self, options, conn)

    def call_for(self, message: Delivery) -> Callable[[], R]:
        arguments: Any = self._arguments.of_message(message)
        function: Callable[..., R] = self.function
        return lambda: function(**arguments)

    def message_of_tick(self, options: Options) -> CronMessage:
        """What a schedule makes: a call without arguments."""
        made = self.message_of(options, (), {})
        content, content_type = encode(made.value)
        headers = {HEADER: content_type, **(made.headers or {})}
        return CronMessage(
            made.channel, content, headers, made.max_attempts, made.priority, made.cost, made.lane
        )

    def message_of(self, options: Options, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewMessage:
        return NewMessage(
            self._arguments.of_call(args, kwargs),
            self.policy.channel if options.channel is None else options.channel,
            options.run_at,
            options.delay,
            options.priority,
            options.dedupe_key,
            {**(options.headers or {}), TASK_HEADER: self.name},
            self.policy.max_attempts if options.max_attempts is None else options.max_attempts,
            cost=options.cost,
            lane=options.lane,
        )


class Using(Generic[P, C]):
    """A task with other options, for one or more calls."""

    def __init__(self, task: Task[P, Any, C], options: Options, conn: object | None) -> None:
        self._task = task
        self._options = options
        self._conn = conn

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> C:
        message = self.message(*args, **kwargs)
        return self._task.sending.send(self._task, message, self._conn, self._options.on_full)

    def message(self, *args: P.args, **kwargs: P.kwargs) -> NewMessage:
        return self._task.message_of(self._options, args, kwargs)


@dataclass(frozen=True)
class RawHandler:
    """For messages that are of no task."""

    function: Callable[[Delivery], Any]
    policy: Policy

    def __post_init__(self) -> None:
        check_runs_when_called(self.function)

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", self.function))

    @property
    def is_async(self) -> bool:
        return is_async(self.function)

    def call_for(self, message: Delivery) -> Callable[[], Any]:
        return lambda: self.function(message)


def check_runs_when_called(function: Callable[..., Any]) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidArgument(
            f"{getattr(function, '__name__', function)} yields: to call it does nothing by itself",
            "let it do its work and return",
        )


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    )
