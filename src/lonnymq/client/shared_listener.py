"""One connection that listens for everybody who waits for a result, however many threads or tasks wait.

One of those who wait reads the connection at a time, and wakes the others whose message is notified. When it
stops waiting, another one takes over. So no thread or task runs that nobody waits for. If the connection
breaks, all of them are woken, and look themselves.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from lonnymq.adapters.listener import AsyncListener, Listener

Event = TypeVar("Event", threading.Event, asyncio.Event)


class Waiter(Generic[Event]):
    """Waits for notifications with its key. `event` is set if it was woken, or must read the connection."""

    def __init__(self, key: str, event: Event) -> None:
        self.key = key
        self.event: Event = event
        self.is_woken = False


class Waiters(Generic[Event]):
    """Everybody who waits, and who of them reads the connection."""

    def __init__(self) -> None:
        self._all: dict[Waiter[Event], None] = {}
        self._reader: Waiter[Event] | None = None

    def add(self, waiter: Waiter[Event]) -> None:
        self._all[waiter] = None

    def remove(self, waiter: Waiter[Event]) -> None:
        self._all.pop(waiter, None)
        self.stop_reading(waiter)

    def stop_reading(self, waiter: Waiter[Event]) -> None:
        """It reads the connection no more. If nobody does, one of those who sleep must: wake one."""
        if self._reader is waiter:
            self._reader = None
        if self._reader is None:
            for other in self._all:
                if other is not waiter and not other.is_woken:
                    other.event.set()
                    break

    def must_read(self, waiter: Waiter[Event]) -> bool:
        """Whether it reads the connection, which it does if nobody else does."""
        if self._reader is None:
            self._reader = waiter
        waiter.event.clear()
        return self._reader is waiter

    def wake(self, payloads: Iterable[str] | None) -> None:
        """Wake those whose keys are in the payloads; all of them for None."""
        keys = None if payloads is None else {key for payload in payloads for key in payload.split(",")}
        for waiter in self._all:
            if keys is None or waiter.key in keys:
                waiter.is_woken = True
                waiter.event.set()


class SharedListener:
    """For threads."""

    def __init__(self, connect: Callable[[str], Listener | None]) -> None:
        self._connect = connect
        self._listener: Listener | None = None
        self._waiters: Waiters[threading.Event] = Waiters()
        self._lock = threading.Lock()

    def listeners(self) -> list[Listener]:
        """The connection, if there is one."""
        return [] if self._listener is None else [self._listener]

    def listen(self, channel: str, key: str) -> Waiter[threading.Event] | None:
        """Listen from now on; None if that is not possible at the moment."""
        with self._lock:
            if self._listener is None:
                self._listener = self._connect(channel)
            if self._listener is None:
                return None
            waiter = Waiter(key, threading.Event())
            self._waiters.add(waiter)
            return waiter

    def forget(self, waiter: Waiter[threading.Event]) -> None:
        with self._lock:
            self._waiters.remove(waiter)

    def wait(self, waiter: Waiter[threading.Event], seconds: float) -> bool:
        """Wait until woken, at most `seconds`. Returns whether the connection is still there."""
        ends_at = time.monotonic() + seconds
        while True:
            with self._lock:
                left = ends_at - time.monotonic()
                listener = self._listener
                if waiter.is_woken or left <= 0 or listener is None:
                    waiter.is_woken = False
                    self._waiters.stop_reading(waiter)
                    return listener is not None
                must_read = self._waiters.must_read(waiter)
            if not must_read:
                waiter.event.wait(left)
                continue
            payloads = listener.payloads(left)
            with self._lock:
                self._waiters.wake(payloads)
                if payloads is None and self._listener is listener:
                    self._listener = None
                    listener.close()

    def close(self) -> None:
        with self._lock:
            if self._listener is not None:
                self._listener.close()
                self._listener = None
            self._waiters.wake(None)


class AsyncSharedListener:
    """For tasks of one event loop."""

    def __init__(self, connect: Callable[[str], Awaitable[AsyncListener | None]]) -> None:
        self._connect = connect
        self._listener: AsyncListener | None = None
        self._waiters: Waiters[asyncio.Event] = Waiters()
        self._connecting = asyncio.Lock()

    def listeners(self) -> list[AsyncListener]:
        """The connection, if there is one."""
        return [] if self._listener is None else [self._listener]

    async def listen(self, channel: str, key: str) -> Waiter[asyncio.Event] | None:
        """Listen from now on; None if that is not possible at the moment."""
        async with self._connecting:
            if self._listener is None:
                self._listener = await self._connect(channel)
            if self._listener is None:
                return None
            waiter = Waiter(key, asyncio.Event())
            self._waiters.add(waiter)
            return waiter

    def forget(self, waiter: Waiter[asyncio.Event]) -> None:
        self._waiters.remove(waiter)

    async def wait(self, waiter: Waiter[asyncio.Event], seconds: float) -> bool:
        """Wait until woken, at most `seconds`. Returns whether the connection is still there."""
        ends_at = time.monotonic() + seconds
        while True:
            left = ends_at - time.monotonic()
            listener = self._listener
            if waiter.is_woken or left <= 0 or listener is None:
                waiter.is_woken = False
                self._waiters.stop_reading(waiter)
                return listener is not None
            if self._waiters.must_read(waiter):
                await self._read(listener, left)
            else:
                try:
                    async with asyncio.timeout(left):
                        await waiter.event.wait()
                except TimeoutError:
                    pass

    async def _read(self, listener: AsyncListener, seconds: float) -> None:
        payloads: list[str] | None = None
        try:
            payloads = await listener.payloads(seconds)
        finally:  # a reader that is cancelled leaves the connection in the middle of a read
            self._waiters.wake(payloads)
            if payloads is None and self._listener is listener:
                self._listener = None
                listener.close_now()

    def close_now(self) -> None:
        """Close the connection, also outside of its event loop."""
        listener, self._listener = self._listener, None
        self._waiters.wake(None)
        if listener is not None:
            listener.close_now()
