"""Work that comes one by one and is done in batches.

Nothing waits for a batch to fill: what comes while none is under way is done at once, and what comes
meanwhile is the next batch. So a lone message is not delayed, and under load the batches grow by
themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

PATIENCE = 2.0  # seconds; then somebody has one of the batch locked, and the others should not wait for that
PARTS = 10
SIZE = 1000


class NotTogether(Exception):
    """One of a batch is to blame: the others may do better without it."""


class Batches(Generic[Item]):
    def __init__(self, do: Callable[[list[Item]], Awaitable[None]], size: int = SIZE) -> None:
        self._do = do
        self._size = size
        self._waiting: list[Item] = []
        self._has_some = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def add(self, item: Item) -> None:
        self._waiting.append(item)
        self._has_some.set()
        self._is_idle.clear()

    async def run(self) -> None:
        """For ever. A batch that takes long is left to itself."""
        while True:
            await self._has_some.wait()
            batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
            if not self._waiting:
                self._has_some.clear()
            doing = asyncio.create_task(in_parts(self._do, batch))
            self._under_way.add(doing)
            doing.add_done_callback(self._is_over)
            await asyncio.wait({doing}, timeout=PATIENCE)

    async def finished(self) -> None:
        """All that was added is done."""
        await self._is_idle.wait()

    def _is_over(self, doing: asyncio.Task[None]) -> None:
        self._under_way.discard(doing)
        if not self._under_way and not self._waiting:
            self._is_idle.set()
        if not doing.cancelled() and (error := doing.exception()) is not None:
            raise error


async def in_parts(
    do: Callable[[list[Any]], Awaitable[None]], items: list[Any], patience: float | None = None
) -> None:
    """All at once; where that takes too long, or cannot be, in parts, and these in parts, so that one that
    somebody holds locked, or that the database refuses, keeps back itself alone.
    """
    if len(items) == 1:
        await do(items)
        return
    try:
        async with asyncio.timeout(PATIENCE if patience is None else patience):
            await do(items)
    except (TimeoutError, NotTogether):
        size = -(-len(items) // PARTS)
        parts = [items[start : start + size] for start in range(0, len(items), size)]
        await asyncio.gather(*(in_parts(do, part, patience) for part in parts))
