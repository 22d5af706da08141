"""Errors that may not occur again, and calls that are repeated after them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from lonnymq.errors import ConnectionDropped, DatabaseUnreachable, RetryTransaction

TRANSIENT_ERRORS = (ConnectionDropped, DatabaseUnreachable, RetryTransaction)
RETRY_TIMEOUT_S = 60
MAX_PAUSE_S = 5.0

Answer = TypeVar("Answer")
logger = logging.getLogger(__name__)


def retry_transient(call: Callable[[], Answer]) -> Answer:
    """Call again while the connection breaks or cannot be opened, for RETRY_TIMEOUT_S at most."""
    pause = 0.1
    deadline: float | None = None
    while True:
        try:
            return call()
        except TRANSIENT_ERRORS as error:
            deadline = deadline or time.monotonic() + RETRY_TIMEOUT_S
            if time.monotonic() > deadline:
                raise
            logger.warning("retrying a call to the database: %s", error)
        time.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
