"""What a job needs from the worker that runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lonnymq.client.observers import Observer
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.leases import Leases
from lonnymq.worker.progress import Progress
from lonnymq.worker.stop_reason import StopReason


class WorkerJobContext:
    __slots__ = ("_leased", "_leases", "_loop", "_progress", "observers", "schema")

    def __init__(
        self,
        leased: LeasedMessage,
        leases: Leases,
        progress: Progress,
        loop: asyncio.AbstractEventLoop,
        schema: str,
        observers: Sequence[Observer],
    ) -> None:
        self._leased = leased
        self._leases = leases
        self._progress = progress
        self._loop = loop
        self.schema = schema
        self.observers = observers

    @property
    def stop_reason(self) -> StopReason | None:
        return self._leased.stop_reason

    @property
    def is_interrupted(self) -> bool:
        return self._leased.is_interrupted

    def completed_by_handler(self) -> None:
        self._leased.is_completed_by_handler = True

    def progress(self, fraction: float, note: str | None) -> None:
        self._progress.report(self._leased, fraction, note)

    async def save(self, state: bytes) -> bool:
        return await self._leases.extend(self._leased, state)

    def save_from_thread(self, state: bytes) -> bool:
        return asyncio.run_coroutine_threadsafe(self.save(state), self._loop).result()
