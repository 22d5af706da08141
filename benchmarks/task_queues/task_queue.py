"""What a library must offer to be measured: a producer, and a worker."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Literal, Protocol

from benchmarks.task_queues.tally import Tally

Kind = Literal["async", "sync"]
"""Of the task's function. It does nothing, with one number as its argument."""

Mode = Literal["batches", "single", "default"]
"""As much at once as does it good; one at a time; or nothing set at all."""

TASK = "noop"
POOL_SIZE = 10
"""Connections of a producer, for all libraries."""


class Producer(Protocol):
    async def one(self, number: int) -> None:
        """A task, in its own transaction."""

    async def many(self, numbers: Sequence[int]) -> None:
        """Tasks, in one call."""


class TaskQueue(ABC):
    name: ClassVar[str]
    settings: ClassVar[Mapping[Mode, str]]
    """What is set in which mode, in its own words."""
    unfinished: ClassVar[str]
    """FROM and WHERE of the tasks that are not done."""
    finished: ClassVar[str | None]
    """FROM and WHERE of those that are; None: it keeps nothing of them."""

    share: ClassVar[float] = 1
    """Of the tasks that the others get: less, where a run would take many times as long."""

    @abstractmethod
    def install(self, dsn: str) -> None: ...

    @abstractmethod
    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """In the event loop that it is best served by."""

    @abstractmethod
    def producer(self, dsn: str) -> AbstractAsyncContextManager[Producer]: ...

    @abstractmethod
    def work(self, dsn: str, kind: Kind, mode: Mode, tally: Tally, begin: Callable[[], None]) -> None:
        """A worker, until SIGTERM. All is made ready, then `begin` is called, then it starts."""
