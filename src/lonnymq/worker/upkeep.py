"""The queue's upkeep, once a minute."""

from __future__ import annotations

import asyncio
import logging
import random

from lonnymq.errors import LonnyMQError
from lonnymq.queue.async_queue import AsyncQueue
from lonnymq.worker.outages import PASSING

log = logging.getLogger("lonnymq.worker")

PERIOD = 60.0


async def maintain(queue: AsyncQueue) -> None:
    """For ever; it waits for nobody, so any number of workers may."""
    while True:
        await asyncio.sleep(PERIOD * random.uniform(0.5, 1.5))  # noqa: S311 - workers go out of step
        try:
            await queue.maintain()
        except PASSING as error:
            log.info("upkeep is put off: %s", error)
        except LonnyMQError as error:
            log.warning("upkeep is left to others: %s", error)
            return
        except Exception:
            log.exception("upkeep failed, and is tried again")
