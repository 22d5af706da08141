"""What a job needs from the worker that runs it."""

from __future__ import annotations

import asyncio

from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.leases import Leases


class WorkerJobContext:
    __slots__ = ("_leased", "_leases", "_loop", "schema")

    def __init__(
        self, leased: LeasedMessage, leases: Leases, loop: asyncio.AbstractEventLoop, schema: str
    ) -> None:
        self._leased = leased
        self._leases = leases
        self._loop = loop
        self.schema = schema

    @property
    def is_stopped(self) -> bool:
        return self._leased.stop_reason is not None

    def completed_by_handler(self) -> None:
        self._leased.is_completed_by_handler = True

    async def save(self, state: bytes) -> bool:
        return await self._leases.extend(self._leased, state)

    def save_from_thread(self, state: bytes) -> bool:
        return asyncio.run_coroutine_threadsafe(self.save(state), self._loop).result()
