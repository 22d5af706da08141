"""Retries calls while the database is unavailable."""

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

TRANSIENT = (ConnectionDropped, DatabaseUnreachable, OutcomeUnknown, ReadOnlyDatabase, RetryTransaction)
# Insufficient resources, lock not available, statement timeout or cancel, system error.
TRANSIENT_SQLSTATES = ("53", "55P03", "57014", "58")
RETRY_DELAYS = Backoff(first=0.1, longest=5)

Answer = TypeVar("Answer")


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(error, TRANSIENT) or (sqlstate_of(error) or "").startswith(TRANSIENT_SQLSTATES)


class Outages:
    """Logs once that the database is unavailable and once that it is back, however many calls notice."""

    def __init__(self) -> None:
        self.is_down = False

    async def retry(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call until there is an answer. Errors that are not transient are raised."""
        failures = 0
        while True:
            try:
                answer = await call()
            except Exception as error:
                if not is_transient(error):
                    raise
                failures += 1
                self.begin(error)
            else:
                self.end()
                return answer
            await asyncio.sleep(RETRY_DELAYS(failures))

    def begin(self, error: BaseException) -> None:
        if not self.is_down:
            self.is_down = True
            log.warning("the database is unavailable; the worker keeps trying: %s", error)

    def end(self) -> None:
        if self.is_down:
            self.is_down = False
            log.warning("the database is available again")
