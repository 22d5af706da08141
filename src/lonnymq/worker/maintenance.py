"""The queue's maintenance: about once per minute, and until nothing is left to clean up."""

from __future__ import annotations

import asyncio
import logging
import random

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.errors import LonnyMQError
from lonnymq.worker.outages import TRANSIENT

log = logging.getLogger("lonnymq.worker")

PERIOD_S = 60.0
ROWS_PER_CALL = 10_000
PAUSE_S = 0.1  # between two calls of one round


async def maintain(queue: AsyncQueue) -> None:
    """Run until cancelled. Maintenance never waits for locks, so any number of workers can run it."""
    while True:
        await asyncio.sleep(PERIOD_S * random.uniform(0.5, 1.5))  # noqa: S311 - so that workers take turns
        try:
            while await queue.maintain(ROWS_PER_CALL) >= ROWS_PER_CALL:  # noqa: ASYNC110 - there is more to do
                await asyncio.sleep(PAUSE_S)
        except TRANSIENT as error:
            log.info("maintenance failed, and is tried again in about a minute: %s", error)
        except LonnyMQError as error:
            log.warning("this worker stops doing maintenance: %s", error)
            return
        except Exception:
            log.exception("maintenance failed, and is tried again in about a minute")
