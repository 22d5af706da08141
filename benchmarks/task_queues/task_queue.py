"""What a library must provide to be compared: a producer and a worker."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Literal, Protocol

Kind = Literal["async", "sync"]
"""The kind of the task's function. It does nothing, and takes one number."""

Mode = Literal["batches", "single", "default", "recovering"]
"""As many tasks at once as is best for the library; one at a time; the defaults; or up to RECOVERING tasks at
once, and the tasks of a dead worker come back after RECOVERY_SECONDS, or as soon as the library can."""

RECOVERING = 10
RECOVERY_SECONDS = 10

TASK = "noop"
POOL_SIZE = 10
"""Connections of a producer, the same for all libraries."""

TENANT = 1_000_000
"""Tasks of tenant 1 have the numbers from 1,000,000 on, and so on. Tasks below that have no tenant."""


def tenant_of(number: int) -> int:
    return number // TENANT


class Handler(Protocol):
    """What a task does."""

    def add(self, number: int) -> None:
        """Record that the task with this number runs."""

    async def add_async(self, number: int) -> None: ...


class Producer(Protocol):
    async def one(self, number: int) -> None:
        """Enqueue one task, in its own transaction."""

    async def many(self, numbers: Sequence[int]) -> None:
        """Enqueue tasks in one call."""


class TaskQueue(ABC):
    name: ClassVar[str]
    settings: ClassVar[Mapping[Mode, str]]
    """What is set in each mode, as its users write it."""
    unfinished: ClassVar[str]
    """FROM and WHERE that select the unfinished tasks."""
    finished: ClassVar[str | None]
    """FROM and WHERE that select the finished tasks; None if the library does not keep them."""

    store: ClassVar[Literal["postgresql", "redis"]] = "postgresql"
    """The server that has the tasks."""

    share: ClassVar[float] = 1
    """How many tasks it gets relative to the others; less than 1 if its runs would take much longer."""

    @abstractmethod
    def install(self, dsn: str) -> None: ...

    @abstractmethod
    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run in the event loop that is best for the library."""

    @abstractmethod
    def producer(self, dsn: str) -> AbstractAsyncContextManager[Producer]: ...

    @abstractmethod
    def work(self, dsn: str, kind: Kind, mode: Mode, handler: Handler, begin: Callable[[], None]) -> None:
        """Run a worker until SIGTERM: prepare everything, call `begin`, then start."""
