"""A task: a function whose calls can be enqueued."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast

from lonnymq.client.async_queue import AsyncBatch
from lonnymq.client.calls import shows
from lonnymq.client.produce import TASK_HEADER, OnFull, check_headers, check_names
from lonnymq.client.queue import Batch
from lonnymq.client.times import optional_milliseconds
from lonnymq.commands import Delivery
from lonnymq.errors import InvalidArgument
from lonnymq.message_options import MessageOptions, NewMessage, WorkOptions
from lonnymq.payload import HEADER, encode
from lonnymq.worker.arguments import Arguments
from lonnymq.worker.cron import CronMessage
from lonnymq.worker.handle import AsyncHandle, Enqueuing, Handle
from lonnymq.worker.handler_policy import HandlerPolicy

UNIQUE = ("unique_while", "unique_for")
SCHEDULED_AT_HEADER = "scheduled-at"

P = ParamSpec("P")
R = TypeVar("R")


class Handler(Protocol):
    """What a worker runs for a message. `calling_packages` are those whose code calls the user's function for
    the worker: the tracebacks of errors begin after their frames.
    """

    @property
    def name(self) -> str: ...
    @property
    def policy(self) -> HandlerPolicy: ...
    @property
    def is_async(self) -> bool: ...
    @property
    def calling_packages(self) -> tuple[str, ...]: ...
    def call_for(self, message: Delivery) -> Callable[[], Any]: ...


class Sending(Protocol):
    """Sends a task's messages: to the app's queue, or in tests to the task itself."""

    def send(
        self, task: Task[..., Any], message: NewMessage, conn: object | None, on_full: OnFull
    ) -> Handle: ...
    async def send_async(
        self, task: Task[..., Any], message: NewMessage, conn: object | None, on_full: OnFull
    ) -> AsyncHandle: ...


class Task(Generic[P, R]):
    """Calling a task calls its function. `enqueue` takes the same arguments and enqueues the call;
    `enqueue_async` does so in asynchronous code.
    """

    calling_packages: tuple[str, ...] = ()

    def __init__(
        self,
        function: Callable[P, R],
        name: str,
        policy: HandlerPolicy,
        sending: Sending,
        *,
        validate: bool = False,
    ) -> None:
        self.function = function
        self.name = name
        self.policy = policy
        self.is_async = is_async(function)
        check_runs_when_called(function)
        self._arguments = Arguments(function, name, validate=validate)
        self.sending = sending
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Enqueue a call. Raises ChannelFull if the channel is full, and WrongArguments if the function would
        not accept the arguments. The handle has the message's id, and `wait` for the result.

        ```python
        send_invoice.enqueue(7)
        ```
        """
        return self.sending.send(self, self.message(*args, **kwargs), None, "raise")

    def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Enqueuing:
        """As enqueue, in asynchronous code. Await it.

        ```python
        await send_invoice.enqueue_async(7)
        ```
        """
        return Enqueuing(self.sending.send_async(self, self.message(*args, **kwargs), None, "raise"))

    def message(self, *args: P.args, **kwargs: P.kwargs) -> NewMessage:
        """The message of a call, for enqueue_many.

        ```python
        queue.enqueue_many(send_invoice.message(id) for id in ids)
        ```
        """
        return self.message_of(None, {}, args, kwargs)

    @shows(MessageOptions)
    def using(
        self,
        *,
        channel: str | None = None,
        on_full: OnFull = "raise",
        batch: Batch | AsyncBatch | None = None,
        conn: object | None = None,
        **options: Unpack[MessageOptions],
    ) -> Using[P]:
        """The task with other options, which are those of Queue.enqueue. The result has `enqueue`,
        `enqueue_async` and `message`, as the task does. With `conn`, pass an asynchronous connection for
        `enqueue_async`, and another one for `enqueue`.

        With a `batch`, from `with queue.batch(...)`, the calls belong to that batch.

        ```python
        send_invoice.using(channel="acme", delay=60).enqueue(7)
        ```
        """
        check_names("using", options, MessageOptions, "channel", "on_full", "batch", "conn")
        if batch is not None:
            if not isinstance(batch, Batch | AsyncBatch):
                raise InvalidArgument(
                    f"batch: a {type(batch).__name__} is not a batch",
                    "give what `with queue.batch(...) as batch` names, or batch_id=",
                )
            options["batch_id"] = batch.id
            conn = batch.conn if conn is None else conn
        return Using(self, channel, options, on_full, conn)

    def call_for(self, message: Delivery) -> Callable[[], R]:
        arguments: Any = self._arguments.of_message(message)
        function: Callable[..., R] = self.function
        return lambda: function(**arguments)

    def scheduled_message(self, options: WorkOptions) -> CronMessage:
        """The message that a schedule creates: a call without arguments."""
        made = self.message_of(None, cast("MessageOptions", options), (), {})
        content, content_type = encode(made.payload)
        headers = {HEADER: content_type, **(made.headers or {})}
        given: dict[str, Any] = {name: getattr(made, name) for name in WorkOptions.__annotations__}
        given["headers"] = headers
        given["keep_result_ms"] = optional_milliseconds(given.pop("keep_result"))
        return CronMessage(
            made.channel, content, {name: value for name, value in given.items() if value is not None}
        )

    def message_of(
        self, channel: str | None, options: MessageOptions, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> NewMessage:
        """The message of a call. The task's policy decides what the options leave open."""
        given: dict[str, Any] = dict(self.policy.options)
        if options.get("dedupe_key") is None or any(options.get(name) is not None for name in UNIQUE):
            given = {name: value for name, value in given.items() if name not in UNIQUE}
        given |= {name: value for name, value in options.items() if value is not None}
        given["headers"] = {
            **(self.policy.options.get("headers") or {}),
            **({} if (headers := options.get("headers")) is None else check_headers(headers)),
            TASK_HEADER: self.name,
        }
        arguments = self._arguments.of_call(args, kwargs)
        return NewMessage(arguments, self.policy.channel if channel is None else channel, **given)


class Using(Generic[P]):
    """A task with other options, for one or more calls."""

    def __init__(
        self,
        task: Task[P, Any],
        channel: str | None,
        options: MessageOptions,
        on_full: OnFull,
        conn: object | None,
    ) -> None:
        self._task = task
        self._channel = channel
        self._options = options
        self._on_full: OnFull = on_full
        self._conn = conn

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        message = self.message(*args, **kwargs)
        return self._task.sending.send(self._task, message, self._conn, self._on_full)

    def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Enqueuing:
        message = self.message(*args, **kwargs)
        return Enqueuing(self._task.sending.send_async(self._task, message, self._conn, self._on_full))

    def message(self, *args: P.args, **kwargs: P.kwargs) -> NewMessage:
        return self._task.message_of(self._channel, self._options, args, kwargs)


@dataclass(frozen=True)
class RawHandler:
    """The handler for messages without a task."""

    function: Callable[[Delivery], Any]
    policy: HandlerPolicy
    calling_packages: ClassVar[tuple[str, ...]] = ()

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
            f"{getattr(function, '__name__', function)} is a generator function: calling it runs nothing",
            "write a function that does its work and returns",
        )


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    )
