"""Collects items, so that one call can process many of them.

No item waits for others. An item that arrives while no call is under way is processed at once; those that
arrive meanwhile are processed together by the next call. So a single message is not delayed, and calls become
larger with the load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

CALL_TIMEOUT_S = 2.0  # then another transaction has probably locked one of the items
PARTS = 10
SIZE = 1000


class CallFailed(Exception):
    """A call for several items failed, perhaps because of one of them: calls for fewer may succeed."""


class Collector(Generic[Item]):
    """`process` is called with up to `size` items."""

    def __init__(self, process: Callable[[list[Item]], Awaitable[None]], size: int = SIZE) -> None:
        self._process = process
        self._size = size
        self._waiting: list[Item] = []
        self._has_items = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def __len__(self) -> int:
        """How many items are waiting."""
        return len(self._waiting)

    def add(self, item: Item) -> None:
        self._waiting.append(item)
        self._has_items.set()
        self._is_idle.clear()

    async def run(self) -> None:
        """Process items until cancelled. The next call does not wait for one that is slow."""
        while True:
            await self._has_items.wait()
            items, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
            if not self._waiting:
                self._has_items.clear()
            call = asyncio.create_task(process_in_parts(self._process, items))
            self._calls.add(call)
            call.add_done_callback(self._call_done)
            await asyncio.wait({call}, timeout=CALL_TIMEOUT_S)

    async def wait_until_idle(self) -> None:
        """Wait until every item that was added has been processed."""
        await self._is_idle.wait()

    def _call_done(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not self._calls and not self._waiting:
            self._is_idle.set()
        if not call.cancelled() and (error := call.exception()) is not None:
            raise error


async def process_in_parts(
    process: Callable[[list[Any]], Awaitable[None]], items: list[Any], timeout_s: float | None = None
) -> None:
    """Process all items at once. If that fails or takes too long, split them, and the parts again, so that an
    item that is locked, or that the database refuses, delays only itself.
    """
    if len(items) == 1:
        await process(items)
        return
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S if timeout_s is None else timeout_s):
            await process(items)
    except (TimeoutError, CallFailed):
        size = -(-len(items) // PARTS)
        parts = [items[start : start + size] for start in range(0, len(items), size)]
        await asyncio.gather(*(process_in_parts(process, part, timeout_s) for part in parts))
