"""A database that is away comes back: calls are made again until it does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lonnymq.errors import ConnectionDropped, DatabaseUnreachable, OutcomeUnknown, RetryTransaction
from lonnymq.worker.backoff import Backoff

log = logging.getLogger("lonnymq.worker")

PASSING = (ConnectionDropped, DatabaseUnreachable, OutcomeUnknown, RetryTransaction)
PAUSES = Backoff(first=0.1, longest=5)

Answer = TypeVar("Answer")


class Outages:
    """Says once that the database is away, and once that it is back, however many calls notice."""

    def __init__(self) -> None:
        self.is_on = False

    async def outlast(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer, when there is one. What does not pass by itself is raised."""
        failures = 0
        while True:
            try:
                answer = await call()
            except PASSING as error:
                failures += 1
                self.begin(error)
            else:
                self.end()
                return answer
            await asyncio.sleep(PAUSES(failures))

    def begin(self, error: BaseException) -> None:
        if not self.is_on:
            self.is_on = True
            log.warning("the database is away; what is under way goes on when it is back: %s", error)

    def end(self) -> None:
        if self.is_on:
            self.is_on = False
            log.warning("the database is back")
