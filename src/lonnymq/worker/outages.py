"""A database that is away comes back: calls are made again until it does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lonnymq.adapters.driver_errors import sqlstate_of
from lonnymq.errors import (
    ConnectionDropped,
    DatabaseUnreachable,
    OutcomeUnknown,
    ReadOnlyDatabase,
    RetryTransaction,
)
from lonnymq.worker.backoff import Backoff

log = logging.getLogger("lonnymq.worker")

PASSING = (ConnectionDropped, DatabaseUnreachable, OutcomeUnknown, ReadOnlyDatabase, RetryTransaction)
# Also: no resources, a lock that was not to be had, a timeout or somebody cut it off, the system failed.
PASSING_STATES = ("53", "55P03", "57014", "58")
PAUSES = Backoff(first=0.1, longest=5)

Answer = TypeVar("Answer")


def is_passing(error: BaseException) -> bool:
    """Whether the same call may do better in a while."""
    return isinstance(error, PASSING) or (sqlstate_of(error) or "").startswith(PASSING_STATES)


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
            except Exception as error:
                if not is_passing(error):
                    raise
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
