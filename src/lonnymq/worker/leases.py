"""Extends the leases of messages that are ready or running here, and interrupts handlers that lost theirs.

The extending is done by the `lease_thread`, so that a handler that blocks the worker's event loop does not
cost the others their leases. This module is its counterpart in the loop. The rules between the two threads:

1. The loop owns the messages. It adds them to the set, removes them when their handler has finished, and
   writes their fields. `LeasedMessage` names the three fields that the lease thread writes.
2. The lease thread looks at a copy of the set. `set.copy` is a single step for other threads, so the copy is
   complete; it is out of date a moment later, and rules 3 and 4 allow for that.
3. The lease thread may extend a message that the loop finishes at the same time. If the extension comes
   first, it only moves the end of a lease that is about to be removed. If it comes second, it changes nothing
   in the database, which answers that the lease is lost: the token belongs to a delivery that is over.
4. The lease thread never interrupts a handler. It asks the loop to, once, and the loop interrupts the handler
   if the message is still in the set. So the late answer of rule 3 interrupts nobody.
5. The loop wakes the lease thread when messages arrive while that sleeps. The lease thread first announces
   that it sleeps and then looks at the set once more; the loop first adds and then looks at the announcement.
   So one of them sees the other.
6. Neither waits for the other, except when the worker stops, and then for a limited time.

If the whole process stands still, both do, and the leases end: other workers take over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.commands import MessageExtend, Result
from lonnymq.worker.lease_thread import INTERRUPTING, LeaseThread
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.outages import Outages
from lonnymq.worker.stop_reason import StopReason

END_TIMEOUT_S = 1.0  # for the lease thread when the worker stops; after that it ends with the process


class Leases:
    """`messages` are those to extend: ready here, or running. `running` has the asyncio tasks of handlers."""

    def __init__(
        self,
        queue: AsyncQueue,
        outages: Outages,
        messages: set[LeasedMessage],
        running: Mapping[LeasedMessage, asyncio.Task[None]],
        shortest_s: float,
    ) -> None:
        self._queue = queue
        self._outages = outages
        self._messages = messages
        self._thread = LeaseThread(queue, self, messages, running, shortest_s)

    async def run(self) -> None:
        """Run until cancelled."""
        ended = self._thread.start()
        try:
            await asyncio.shield(ended)
        finally:
            self._thread.stop()
            with suppress(TimeoutError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    await asyncio.shield(ended)

    def messages_arrived(self) -> None:
        self._thread.wake()

    async def extend(self, leased: LeasedMessage, state: bytes | None = None) -> bool:
        """Extend the lease of one message at once. Returns whether the worker still had it."""
        requested_at = monotonic()
        lease_ms = round(leased.lease_s * 1000)
        command = MessageExtend(leased.message.id, leased.message.token, lease_ms, state)
        answer = await self._queue.perform(ask(command))
        if answer.result is Result.EXTENDED:
            leased.extended(requested_at)
        elif answer.result in INTERRUPTING:
            self.interrupt(leased, INTERRUPTING[answer.result])
        return answer.result is Result.EXTENDED

    def interrupt(self, leased: LeasedMessage, reason: StopReason) -> None:
        """Interrupt the handler, unless it has finished or completed the message meanwhile."""
        if leased in self._messages and not leased.is_completed_by_handler:
            leased.interrupt(reason)

    def call_failed(self, error: BaseException) -> None:
        self._outages.begin(error)

    def call_answered(self) -> None:
        self._outages.end()
