"""Messages are completed, put back or discarded, in batches. What the database must be told, it is told
when it can be.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import Request, Steps
from lonnymq.commands import MessageCompleteMany, MessageDiscardMany, MessageRetryMany, Outcome, Result
from lonnymq.worker.batches import Batches, NotTogether
from lonnymq.worker.execute import Discarded, Done, Ending, PutBack
from lonnymq.worker.leased import Holding
from lonnymq.worker.outages import Outages

log = logging.getLogger("lonnymq.worker")

LONGEST_MS = 2**52  # the longest delay that the queue takes
Back = tuple[Holding, PutBack]
Drop = tuple[Holding, Discarded]


class Finishing:
    """`counts` tells how many ended how. A message counts as held until the database has it."""

    def __init__(self, queue: AsyncQueue, outages: Outages, is_over: Callable[[Holding], None]) -> None:
        self._queue = queue
        self._outages = outages
        self._is_over = is_over
        self._completing: Batches[Holding] = Batches(self._complete)
        self._putting_back: Batches[Back] = Batches(self._put_back)
        self._discarding: Batches[Drop] = Batches(self._discard)
        self.counts: Counter[str] = Counter()

    def finish(self, holding: Holding, ending: Ending) -> None:
        if isinstance(ending, Done):
            self._completing.add(holding)
        elif isinstance(ending, PutBack):
            self._putting_back.add((holding, ending))
        elif isinstance(ending, Discarded):
            log.warning(
                "message %s of %s is discarded: %s", holding.message.id, holding.handler.name, ending.reason
            )
            self._discarding.add((holding, ending))
        else:
            self.counts["given up"] += 1
            self._is_over(holding)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for batches in (self._completing, self._putting_back, self._discarding):
                group.create_task(batches.run())

    async def finished(self) -> None:
        for batches in (self._completing, self._putting_back, self._discarding):
            await batches.finished()

    @property
    def backlog(self) -> int:
        return len(self._completing) + len(self._putting_back) + len(self._discarding)

    async def _complete(self, batch: list[Holding]) -> None:
        await self._tell(batch, lambda: Request(_completion(batch)))

    async def _put_back(self, batch: list[Back]) -> None:
        await self._tell([holding for holding, _ in batch], lambda: Request(_return(batch)))

    async def _discard(self, batch: list[Drop]) -> None:
        await self._tell([holding for holding, _ in batch], lambda: Request(_discarding(batch)))

    async def _tell(self, batch: list[Holding], request: Callable[[], Request[list[Outcome]]]) -> None:
        try:
            outcomes = await self._outages.outlast(lambda: self._queue.perform(request()))
        except Exception as error:
            if len(batch) > 1:
                raise NotTogether from error
            log.exception("message %s is left to its lease", batch[0].message.id)
            outcomes = []
        for holding, outcome in zip(batch, outcomes, strict=False):
            self._count(holding, outcome.result)
        for holding in batch:
            self._is_over(holding)

    def _count(self, holding: Holding, result: Result) -> None:
        self.counts[str(result)] += 1
        if result is Result.DEAD:
            log.error("message %s of %s is dead", holding.message.id, holding.handler.name)
        elif result is Result.LOST:
            log.warning("message %s of %s: its lease ran out", holding.message.id, holding.handler.name)


def _ids_and_tokens(batch: Sequence[Holding]) -> tuple[list[int], list[UUID]]:
    return [each.message.id for each in batch], [each.message.token for each in batch]


def _completion(batch: list[Holding]) -> Steps[list[Outcome]]:
    outcomes: list[Outcome] = yield MessageCompleteMany(*_ids_and_tokens(batch))
    return outcomes


def _return(batch: list[Back]) -> Steps[list[Outcome]]:
    delays = [None if back.delay_ms is None else min(back.delay_ms, LONGEST_MS) for _, back in batch]
    errors = [back.error for _, back in batch]
    ids, tokens = _ids_and_tokens([holding for holding, _ in batch])
    outcomes: list[Outcome] = yield MessageRetryMany(ids, tokens, errors=errors, delays_ms=delays)
    return outcomes


def _discarding(batch: list[Drop]) -> Steps[list[Outcome]]:
    ids, tokens = _ids_and_tokens([holding for holding, _ in batch])
    outcomes: list[Outcome] = yield MessageDiscardMany(ids, tokens, [drop.reason for _, drop in batch])
    return outcomes
