"""One description of each call, for the synchronous and the asynchronous queue alike.

A call is described by a function that returns a Request: steps, which yield the commands to run and are sent
their answers, and the connection that the caller gave. `Call` makes a method of it: on a Caller it does the
call and returns the answer, on an AsyncCaller it returns an awaitable.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from lonnymq.statement import Command

P = ParamSpec("P")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Pair(Generic[Answer]):
    """Two commands, each in a transaction of its own; in one round trip where the driver can. The answer is
    that of the second, which is not run if the first fails. Both may be repeated.
    """

    first: Command[Any]
    second: Command[Answer]


Steps = Generator[Command[Any] | Pair[Any], Any, Answer]


@dataclass(frozen=True)
class Request(Generic[Answer]):
    steps: Steps[Answer]
    conn: object | None = None


def ask(command: Command[Answer], conn: object | None = None) -> Request[Answer]:
    """A request of one step."""

    def steps() -> Steps[Answer]:
        answer: Answer = yield command
        return answer

    return Request(steps(), conn)


class Caller(ABC):
    """Does a request and returns its answer."""

    @abstractmethod
    def perform(self, request: Request[Answer]) -> Answer: ...


class AsyncCaller(ABC):
    """Does a request when awaited."""

    @abstractmethod
    async def perform(self, request: Request[Answer]) -> Answer: ...


class Call(Generic[P, Answer]):
    """A method, made of what describes the call."""

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
    """As Call; what describes it takes the caller's `name` first."""

    def __init__(self, describe: Callable[Concatenate[str, P], Request[Answer]]) -> None:
        self._describe = describe

    def _describe_for(self, caller: Any) -> Callable[P, Request[Answer]]:
        return functools.partial(self._describe, caller.name)
