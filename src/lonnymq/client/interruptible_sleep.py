"""Where an asynchronous dequeue sleeps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lonnymq.adapters.listener import AsyncListener


class SleepInterrupted(Exception):
    """The sleep was cut short, and with it the call."""


class ListenerLost(Exception):
    """The listener broke, and the sleeper would hear nobody: it had better begin again."""


class InterruptibleSleep:
    """Until a notification if there is a listener, and not past an alarm if there is one: who sleeps with
    an alarm sleeps for long, and not on after the listener broke.
    """

    def __init__(self, listener: AsyncListener | None = None, alarm: asyncio.Event | None = None) -> None:
        self._listener = listener
        self._alarm = alarm

    async def sleep(self, seconds: float) -> bool:
        if self._alarm is None:
            return await self._nap(seconds)
        nap = asyncio.create_task(self._nap(seconds))
        alarm = asyncio.create_task(self._alarm.wait())
        try:
            await asyncio.wait({nap, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if not alarm.done():
                is_notified = await nap
                if self._listener is not None and self._listener.is_broken:
                    raise ListenerLost
                return is_notified
            if self._listener is not None:
                self._listener.is_broken = True  # it was reading
            raise SleepInterrupted
        finally:
            nap.cancel()
            alarm.cancel()
            await asyncio.wait({nap, alarm})

    async def _nap(self, seconds: float) -> bool:
        if self._listener is not None:
            return await self._listener.wait(seconds)
        await asyncio.sleep(seconds)
        return False
