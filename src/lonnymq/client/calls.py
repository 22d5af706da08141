"""Each call is described once, for Queue and AsyncQueue.

A function describes a call and returns a Request: steps, and the connection that the caller gave. The steps
yield commands and receive their answers. `Call` turns such a function into a method: on a Caller it makes the
call and returns the answer, on an AsyncCaller it returns an awaitable.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload

from lonnymq.commands import Delivery
from lonnymq.statement import Command

P = ParamSpec("P")
Answer = TypeVar("Answer")
Described = TypeVar("Described", bound=Callable[..., Any])


@dataclass(frozen=True)
class Pair(Generic[Answer]):
    """Two commands, each in its own transaction, in one round trip if the driver can. The answer is that of
    the second, which is not run if the first fails. Both may be repeated.
    """

    first: Command[Any]
    second: Command[Answer]


Steps = Generator[Command[Any] | Pair[Any], Any, Answer]


@dataclass(frozen=True)
class Request(Generic[Answer]):
    """`messages` are those that the call finishes, for observers."""

    steps: Steps[Answer]
    conn: object | None = None
    messages: Sequence[Delivery] = ()


def ask(
    command: Command[Answer], conn: object | None = None, messages: Sequence[Delivery] = ()
) -> Request[Answer]:
    """A request with one command."""

    def steps() -> Steps[Answer]:
        answer: Answer = yield command
        return answer

    return Request(steps(), conn, messages)


def shows(options: Any) -> Callable[[Described], Described]:
    """Show the names of a TypedDict in the signature of a function that takes them as **options, for help()
    and for editors that run code.
    """

    def made(function: Described) -> Described:
        signature = inspect.signature(function)
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in get_type_hints(options).items()
        ]
        own = [found for found in signature.parameters.values() if found.kind is not found.VAR_KEYWORD]
        function.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        return function

    return made


def walk(steps: Generator[Any, Any, Answer], take_step: Callable[[Any], Any]) -> Answer:
    """Run the steps, and pass each its answer or its error."""
    proceed: Callable[[Any], Any] = steps.send
    answer: Any = None
    while True:
        try:
            step = proceed(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            proceed, answer = steps.send, take_step(step)
        except Exception as error:  # noqa: BLE001 - raised in the steps, which may catch it
            proceed, answer = steps.throw, error


async def walk_async(
    steps: Generator[Any, Any, Answer], take_step: Callable[[Any], Awaitable[Any]]
) -> Answer:
    """Like walk, for steps whose answers are awaited."""
    proceed: Callable[[Any], Any] = steps.send
    answer: Any = None
    while True:
        try:
            step = proceed(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            proceed, answer = steps.send, await take_step(step)
        except Exception as error:  # noqa: BLE001 - raised in the steps, which may catch it
            proceed, answer = steps.throw, error


class Caller(ABC):
    """Makes a request and returns its answer."""

    @abstractmethod
    def perform(self, request: Request[Answer]) -> Answer: ...


class AsyncCaller(ABC):
    """Makes a request when awaited."""

    @abstractmethod
    async def perform(self, request: Request[Answer]) -> Answer: ...


class Call(Generic[P, Answer]):
    """A method, made from the function that describes the call."""

    def __init__(self, describe: Callable[P, Request[Answer]]) -> None:
        self._describe: Callable[..., Request[Answer]] = describe

    def _describe_for(self, caller: Any) -> Callable[P, Request[Answer]]:  # noqa: ARG002
        return self._describe

    @overload
    def __get__(self, caller: None, owner: type) -> Callable[..., Request[Answer]]: ...
    @overload
    def __get__(self, caller: Caller, owner: type) -> Callable[P, Answer]: ...
    @overload
    def __get__(self, caller: AsyncCaller, owner: type) -> Callable[P, Coroutine[Any, Any, Answer]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        if caller is None:
            return self._describe
        describe = self._describe_for(caller)

        @functools.wraps(describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return caller.perform(describe(*args, **kwargs))

        return call


class NamedCall(Call[P, Answer]):
    """Like Call, for a function that takes the caller's `name` first."""

    def __init__(self, describe: Callable[Concatenate[str, P], Request[Answer]]) -> None:
        self._describe = describe

    def _describe_for(self, caller: Any) -> Callable[P, Request[Answer]]:
        return functools.partial(self._describe, caller.name)


class BatchCall(Call[P, Answer]):
    """Like Call, for a function that takes a batch_id and a conn: those of the caller, unless given."""

    def _describe_for(self, caller: Any) -> Callable[P, Request[Answer]]:
        return functools.partial(self._describe, batch_id=caller.id, conn=caller.conn)
