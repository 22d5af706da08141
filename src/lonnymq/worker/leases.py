"""Leases are extended while their messages are held, and what is lost is given up."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.client.calls import ask
from lonnymq.commands import MessageExtend, MessageExtendMany, Result
from lonnymq.worker.batches import in_parts
from lonnymq.worker.leased import Holding, Stop, now
from lonnymq.worker.outages import Outages, is_passing

log = logging.getLogger("lonnymq.worker")

LOST = {Result.LOST, Result.NOT_FOUND}
STANDSTILL = 1.0  # seconds that the loop may be late before that is worth a word


class Leases:
    """`held` is what there is to extend: what waits to be run, and what runs."""

    def __init__(
        self, queue: AsyncQueue, outages: Outages, held: Collection[Holding], shortest: float
    ) -> None:
        self._queue = queue
        self._outages = outages
        self._held = held
        self._period = min(1.0, shortest / 10)
        self._extending: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """For ever. Each is extended when a third of its lease is over."""
        while True:
            asked = now()
            await asyncio.sleep(self._period)
            late = now() - asked - self._period
            if late > STANDSTILL:
                log.warning(
                    "nothing ran for %.1f s: an asynchronous handler keeps the loop to itself, or the machine"
                    " was asleep; leases are extended only while the loop turns",
                    late,
                )
            self._look()

    def _look(self) -> None:
        moment = now()
        due: defaultdict[float, list[Holding]] = defaultdict(list)
        for holding in self._held:
            if holding.is_left_to_handler or holding.stopped is not None:
                continue
            if holding.until <= moment:
                holding.stop(Stop.LOST)
            elif not holding.is_being_extended and holding.until - moment < holding.lease * 2 / 3:
                due[holding.lease].append(holding)
        for lease, holdings in due.items():
            for holding in holdings:
                holding.is_being_extended = True
            extending = asyncio.create_task(self._extend_all(holdings, lease))
            self._extending.add(extending)
            extending.add_done_callback(self._extending.discard)

    async def _extend_all(self, holdings: list[Holding], lease: float) -> None:
        try:
            await in_parts(self._extend, holdings, lease / 6)
        except Exception as error:
            if is_passing(error):
                self._outages.begin(error)
            else:
                log.exception("%s leases could not be extended", len(holdings))
        finally:
            for holding in holdings:
                holding.is_being_extended = False

    async def _extend(self, holdings: list[Holding]) -> None:
        asked = now()
        ids = [holding.message.id for holding in holdings]
        tokens = [holding.message.token for holding in holdings]
        lease_ms = round(holdings[0].lease * 1000)
        answers = await self._queue.perform(ask(MessageExtendMany(ids, tokens, lease_ms)))
        self._outages.end()
        for holding, answer in zip(holdings, answers, strict=True):
            self._is_extended(holding, answer.result, asked)

    async def extend(self, holding: Holding, state: bytes | None = None) -> bool:
        """At once, for this one; whether it is still ours."""
        asked = now()
        command = MessageExtend(holding.message.id, holding.message.token, round(holding.lease * 1000), state)
        answer = await self._queue.perform(ask(command))
        self._is_extended(holding, answer.result, asked)
        return answer.result is Result.EXTENDED

    def _is_extended(self, holding: Holding, result: Result, asked: float) -> None:
        if result is Result.EXTENDED:
            holding.extended(asked)
        elif holding.is_left_to_handler:
            pass  # it was completed meanwhile, in the handler's transaction
        elif result is Result.CANCELLED:
            holding.stop(Stop.CANCELLED)
        elif result in LOST:
            holding.stop(Stop.LOST)
