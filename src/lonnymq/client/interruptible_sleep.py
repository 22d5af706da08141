"""The sleep of an asynchronous dequeue, which a notification or a caller can end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lonnymq.adapters.listener import AsyncListener


class SleepInterrupted(Exception):
    """The caller ended the sleep, and with it the dequeue."""


class ListenerLost(Exception):
    """The listener broke, so that no notification would arrive. The dequeue starts again."""


class InterruptibleSleep:
    """Sleeps until a notification, if there is a listener, or until the event `stop` is set, if there is
    one. With `stop`, a sleep can be long, so it ends when the listener breaks.
    """

    def __init__(self, listener: AsyncListener | None = None, stop: asyncio.Event | None = None) -> None:
        self._listener = listener
        self._stop = stop

    async def sleep(self, seconds: float) -> bool:
        if self._stop is None:
            return await self._sleep(seconds)
        sleep = asyncio.create_task(self._sleep(seconds))
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({sleep, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not stop.done():
                is_notified = await sleep
                if self._listener is not None and self._listener.is_broken:
                    raise ListenerLost
                return is_notified
            if self._listener is not None:
                self._listener.is_broken = True  # it was reading
            raise SleepInterrupted
        finally:
            sleep.cancel()
            stop.cancel()
            await asyncio.wait({sleep, stop})

    async def _sleep(self, seconds: float) -> bool:
        if self._listener is not None:
            return await self._listener.wait(seconds)
        await asyncio.sleep(seconds)
        return False
