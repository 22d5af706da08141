"""Extends the leases of messages that are waiting or running here, and stops handlers that lost theirs."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.commands import MessageExtend, MessageExtendMany, Result
from lonnymq.worker.batches import process_in_parts
from lonnymq.worker.leased import LeasedMessage, StopReason, loop_time
from lonnymq.worker.outages import Outages, is_transient

log = logging.getLogger("lonnymq.worker")

LOST = {Result.LOST, Result.NOT_FOUND}
LOOP_DELAY_WARNING_S = 1.0


class Leases:
    """`messages` are those to extend: waiting here, or running."""

    def __init__(
        self, queue: AsyncQueue, outages: Outages, messages: Collection[LeasedMessage], shortest_s: float
    ) -> None:
        self._queue = queue
        self._outages = outages
        self._messages = messages
        self._period_s = min(1.0, shortest_s / 10)
        self._extending: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run until cancelled. Each lease is extended when a third of it is over."""
        while True:
            slept_at = loop_time()
            await asyncio.sleep(self._period_s)
            late = loop_time() - slept_at - self._period_s
            if late > LOOP_DELAY_WARNING_S:
                log.warning(
                    "the event loop was blocked for %.1f s, by an asynchronous handler or because the "
                    "machine was suspended; leases are only extended while it runs",
                    late,
                )
            self._extend_due()

    def _extend_due(self) -> None:
        now = loop_time()
        due: defaultdict[float, list[LeasedMessage]] = defaultdict(list)
        for leased in self._messages:
            if leased.is_completed_by_handler or leased.stop_reason is not None:
                continue
            if leased.lease_ends_at <= now:
                leased.stop(StopReason.LOST)
            elif not leased.is_being_extended and leased.lease_ends_at - now < leased.lease_s * 2 / 3:
                due[leased.lease_s].append(leased)
        for lease_s, batch in due.items():
            for leased in batch:
                leased.is_being_extended = True
            extending = asyncio.create_task(self._extend_batch(batch, lease_s))
            self._extending.add(extending)
            extending.add_done_callback(self._extending.discard)

    async def _extend_batch(self, batch: list[LeasedMessage], lease_s: float) -> None:
        try:
            await process_in_parts(self._extend_many, batch, lease_s / 6)
        except Exception as error:
            if is_transient(error):
                self._outages.begin(error)
            else:
                log.exception("could not extend %d leases", len(batch))
        finally:
            for leased in batch:
                leased.is_being_extended = False

    async def _extend_many(self, batch: list[LeasedMessage]) -> None:
        requested_at = loop_time()
        ids = [leased.message.id for leased in batch]
        tokens = [leased.message.token for leased in batch]
        lease_ms = round(batch[0].lease_s * 1000)
        answers = await self._queue.perform(ask(MessageExtendMany(ids, tokens, lease_ms)))
        self._outages.end()
        for leased, answer in zip(batch, answers, strict=True):
            self._note_result(leased, answer.result, requested_at)

    async def extend(self, leased: LeasedMessage, state: bytes | None = None) -> bool:
        """Extend the lease of one message at once. Returns whether the worker still had it."""
        requested_at = loop_time()
        lease_ms = round(leased.lease_s * 1000)
        command = MessageExtend(leased.message.id, leased.message.token, lease_ms, state)
        answer = await self._queue.perform(ask(command))
        self._note_result(leased, answer.result, requested_at)
        return answer.result is Result.EXTENDED

    def _note_result(self, leased: LeasedMessage, result: Result, requested_at: float) -> None:
        if result is Result.EXTENDED:
            leased.extended(requested_at)
        elif leased.is_completed_by_handler:
            pass  # the handler's transaction committed meanwhile
        elif result is Result.CANCELLED:
            leased.stop(StopReason.CANCELLED)
        elif result in LOST:
            leased.stop(StopReason.LOST)
