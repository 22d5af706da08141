"""Completes, gives back or discards messages, in batches. They wait here during an outage."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.commands import MessageCompleteMany, MessageDiscardMany, MessageRetryMany, Outcome, Result
from lonnymq.statement import Command
from lonnymq.worker.batches import Batches, BatchFailed
from lonnymq.worker.execute import Discarded, Done, GiveBack, HandlerOutcome
from lonnymq.worker.leased import LeasedMessage
from lonnymq.worker.outages import Outages

log = logging.getLogger("lonnymq.worker")

DELAY_MAX_MS = 2**52  # the longest delay that the queue accepts


class Finisher:
    """`counts` is how many messages had which result. `on_finished` is called for each message when the
    database has it, or when nothing more can be done about it.
    """

    def __init__(
        self, queue: AsyncQueue, outages: Outages, on_finished: Callable[[LeasedMessage], None]
    ) -> None:
        self._queue = queue
        self._outages = outages
        self._on_finished = on_finished
        self._to_complete: Batches[LeasedMessage] = Batches(self._complete)
        self._to_give_back: Batches[tuple[LeasedMessage, GiveBack]] = Batches(self._give_back)
        self._to_discard: Batches[tuple[LeasedMessage, Discarded]] = Batches(self._discard)
        self.counts: Counter[str] = Counter()

    def finish(self, leased: LeasedMessage, outcome: HandlerOutcome) -> None:
        if isinstance(outcome, Done):
            self._to_complete.add(leased)
        elif isinstance(outcome, GiveBack):
            self._to_give_back.add((leased, outcome))
        elif isinstance(outcome, Discarded):
            log.warning(
                "message %s of %s is discarded: %s", leased.message.id, leased.handler.name, outcome.reason
            )
            self._to_discard.add((leased, outcome))
        else:
            self.counts[outcome.counted_as] += 1
            self._on_finished(leased)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for batches in (self._to_complete, self._to_give_back, self._to_discard):
                group.create_task(batches.run())

    async def wait_until_idle(self) -> None:
        for batches in (self._to_complete, self._to_give_back, self._to_discard):
            await batches.wait_until_idle()

    @property
    def backlog(self) -> int:
        return len(self._to_complete) + len(self._to_give_back) + len(self._to_discard)

    async def _complete(self, batch: list[LeasedMessage]) -> None:
        await self._send(batch, MessageCompleteMany(*_ids_and_tokens(batch)))

    async def _give_back(self, batch: list[tuple[LeasedMessage, GiveBack]]) -> None:
        messages = [leased for leased, _ in batch]
        delays = [None if back.delay_ms is None else min(back.delay_ms, DELAY_MAX_MS) for _, back in batch]
        errors = [back.error for _, back in batch]
        ids, tokens = _ids_and_tokens(messages)
        await self._send(messages, MessageRetryMany(ids, tokens, errors=errors, delays_ms=delays))

    async def _discard(self, batch: list[tuple[LeasedMessage, Discarded]]) -> None:
        messages = [leased for leased, _ in batch]
        reasons = [discarded.reason for _, discarded in batch]
        await self._send(messages, MessageDiscardMany(*_ids_and_tokens(messages), reasons))

    async def _send(self, batch: list[LeasedMessage], command: Command[list[Outcome]]) -> None:
        try:
            outcomes = await self._outages.retry(lambda: self._queue.perform(ask(command)))
        except Exception as error:
            if len(batch) > 1:
                raise BatchFailed from error
            log.exception(
                "message %s could not be finished, and is served again when its lease ends",
                batch[0].message.id,
            )
            outcomes = []
        for leased, outcome in zip(batch, outcomes, strict=False):
            self._count(leased, outcome.result)
        for leased in batch:
            self._on_finished(leased)

    def _count(self, leased: LeasedMessage, result: Result) -> None:
        self.counts[str(result)] += 1
        if result is Result.DEAD:
            log.error("message %s of %s is dead", leased.message.id, leased.handler.name)
        elif result is Result.LOST:
            log.warning("the lease of message %s of %s was lost", leased.message.id, leased.handler.name)


def _ids_and_tokens(batch: Sequence[LeasedMessage]) -> tuple[list[int], list[UUID]]:
    return [leased.message.id for leased in batch], [leased.message.token for leased in batch]
