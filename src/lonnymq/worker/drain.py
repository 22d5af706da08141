"""Stopping a worker: running handlers may finish, and those that do not are interrupted in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from time import monotonic
from typing import Any

from lonnymq.formatting import plural
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.stop_reason import StopReason
from lonnymq.worker.threads import INTERRUPT_TIMEOUT_S

log = logging.getLogger("lonnymq.worker")

PROGRESS_S = 10.0  # how often to log what still runs
NAMED_MAX = 10


class Drain:
    """`running` has the asyncio task of each handler. No handler is started once the drain has begun."""

    def __init__(
        self, name: str, running: Mapping[LeasedMessage, asyncio.Task[None]], timeout_s: float
    ) -> None:
        self._name = name  # several worker processes may log into one file
        self._running = running
        self._timeout_s = timeout_s
        self._began_at: float | None = None
        self._forced = asyncio.Event()

    def begin(self) -> float:
        """Ask running handlers to stop when they can. Returns when it first did so."""
        if self._began_at is None:
            self._began_at = monotonic()
            for leased in self._running:
                leased.ask_to_stop(StopReason.SHUTDOWN)
            if self._running and not self._forced.is_set():
                log.info(
                    "%s is draining: %d running, waiting up to %g s",
                    *(self._name, len(self._running), self._timeout_s),
                )
        return self._began_at

    def force(self) -> None:
        """Do not wait for running handlers any longer."""
        if not self._forced.is_set():
            self._forced.set()
            if self._running:
                log.warning(
                    "%s is stopping now, and releases %s", self._name, plural(len(self._running), "message")
                )

    async def wait(self) -> None:
        """Wait for running handlers. Interrupt those that do not finish in time, or at once if forced."""
        deadline = self.begin() + self._timeout_s
        while self._running and not self._forced.is_set() and (left := deadline - monotonic()) > 0:
            await self._wait_until_none_runs(min(left, PROGRESS_S), self._forced)
            if self._running and not self._forced.is_set() and monotonic() < deadline:
                self._log_progress()
        if self._running:
            if not self._forced.is_set():
                log.warning(
                    "%s is stopping: %s did not finish in %g s; releasing the messages",
                    *(self._name, plural(len(self._running), "handler"), self._timeout_s),
                )
            for leased in self._running:
                leased.interrupt(StopReason.SHUTDOWN)
            await self._wait_until_none_runs(2 * INTERRUPT_TIMEOUT_S)

    def _log_progress(self) -> None:
        now = monotonic()
        named = [f"{leased.handler.name} (message {leased.message.id})" for leased in self._running]
        if len(named) > NAMED_MAX:
            named[NAMED_MAX:] = [f"and {len(named) - NAMED_MAX} more"]
        log.info(
            "%s is draining: %d still running after %.0f s: %s",
            *(self._name, len(self._running), now - self.begin(), ", ".join(named)),
        )

    async def _wait_until_none_runs(self, seconds: float, forced: asyncio.Event | None = None) -> None:
        """Wait until no handler runs, the time is over, or `forced` is set."""
        waiters: list[asyncio.Task[Any]] = [asyncio.create_task(asyncio.wait(list(self._running.values())))]
        if forced is not None:
            waiters.append(asyncio.create_task(forced.wait()))
        await asyncio.wait(waiters, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiters:
            waiter.cancel()
