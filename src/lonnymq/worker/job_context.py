"""Where a message lies while a handler works on it."""

from __future__ import annotations

import asyncio

from lonnymq.worker.leased import Holding
from lonnymq.worker.leases import Leases


class WorkerDesk:
    __slots__ = ("_holding", "_leases", "_loop", "schema")

    def __init__(
        self, holding: Holding, leases: Leases, loop: asyncio.AbstractEventLoop, schema: str
    ) -> None:
        self._holding = holding
        self._leases = leases
        self._loop = loop
        self.schema = schema

    @property
    def is_stopped(self) -> bool:
        return self._holding.stopped is not None

    def leave_to_handler(self) -> None:
        self._holding.is_left_to_handler = True

    async def save(self, state: bytes) -> bool:
        return await self._leases.extend(self._holding, state)

    def save_from_thread(self, state: bytes) -> bool:
        return asyncio.run_coroutine_threadsafe(self.save(state), self._loop).result()
