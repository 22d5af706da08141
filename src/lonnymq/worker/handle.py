"""What enqueueing a call of a task returns: the message's id, and a way to wait for its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

from lonnymq.commands import Created
from lonnymq.message_options import Duration


@dataclass(frozen=True, slots=True, eq=False)
class AnyHandle(Created):
    """A message that was created by a call of a task. It equals a Created with the same id and result."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Created):
            return NotImplemented
        return (self.id, self.result) == (other.id, other.result)

    def __hash__(self) -> int:
        return hash((self.id, self.result))


@dataclass(frozen=True, slots=True, eq=False)
class Handle(AnyHandle):
    """What `enqueue` of a task returns."""

    _wait: Callable[[Any, Duration | None], Any] = field(repr=False)

    def wait(self, timeout: Duration | None = None) -> Any:
        """Wait until the call has finished, and return what the task returned: see `Queue.wait`. The task
        needs `keep_result`. If your own transaction enqueued the call, commit it first.

        ```python
        total = add_up.enqueue([1, 2, 3]).wait(timeout=30)
        ```
        """
        return self._wait(self.id, timeout)


@dataclass(frozen=True, slots=True, eq=False)
class AsyncHandle(AnyHandle):
    """What `enqueue_async` of a task returns."""

    _wait: Callable[[Any, Duration | None], Awaitable[Any]] = field(repr=False)

    async def wait(self, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109
        """As Handle.wait.

        ```python
        handle = await add_up.enqueue_async([1, 2, 3])
        total = await handle.wait(timeout=30)
        ```
        """
        return await self._wait(self.id, timeout)


class Enqueuing(Coroutine[Any, Any, AsyncHandle]):
    """A coroutine that enqueues a call. Await it for its handle, or await its `wait` for the result of the
    call.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, AsyncHandle]) -> None:
        self._coroutine = coroutine

    async def wait(self, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109
        """Enqueue the call, and wait for its result.

        ```python
        total = await add_up.enqueue_async([1, 2, 3]).wait(timeout=30)
        ```
        """
        handle = await self._coroutine
        return await handle.wait(timeout)

    def __await__(self) -> Generator[Any, Any, AsyncHandle]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()
