"""The queue's upkeep: once a minute, and as long as there is more to do."""

from __future__ import annotations

import asyncio
import logging
import random

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.errors import LonnyMQError
from lonnymq.worker.outages import PASSING

log = logging.getLogger("lonnymq.worker")

PERIOD = 60.0
PIECE = 10_000  # rows that one call cleans away at most
PAUSE = 0.1  # seconds between two pieces


async def maintain(queue: AsyncQueue) -> None:
    """For ever; it waits for nobody, so any number of workers may."""
    while True:
        await asyncio.sleep(PERIOD * random.uniform(0.5, 1.5))  # noqa: S311 - workers go out of step
        try:
            while await queue.maintain(PIECE) >= PIECE:  # noqa: ASYNC110 - there is more to do
                await asyncio.sleep(PAUSE)
        except PASSING as error:
            log.info("upkeep is put off: %s", error)
        except LonnyMQError as error:
            log.warning("upkeep is left to others: %s", error)
            return
        except Exception:
            log.exception("upkeep failed, and is tried again")
