"""Whether messages are due that a limit holds back: a worker that runs until the queue is empty waits for
them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from lonnymq.client.async_queue import AsyncQueue
from lonnymq.errors import ChannelForbidden, NotPermitted

log = logging.getLogger("lonnymq.worker")

PAGE = 250
EXACT_BELOW = 10_000
"""From this number of scheduled messages on, the queue's statistics are estimates."""


async def has_due_messages(queue: AsyncQueue, lanes: Collection[str] | None) -> bool:
    """Whether messages are due in channels that are not paused; if lanes are given, only in these."""
    try:
        if lanes is not None and not await _is_any_lane_due(queue, lanes):
            return False
        stats = await queue.stats()
        is_exact = stats.scheduled is not None and stats.scheduled < EXACT_BELOW
        if stats.paused or (stats.due == 0 and is_exact):
            return False
        return await _is_any_channel_due(queue, lanes)
    except (ChannelForbidden, NotPermitted):
        log.warning(
            "this login may not see whether limits hold back messages: grant it the observer role to have"
            " until_empty wait for them"
        )
        return False


async def _is_any_lane_due(queue: AsyncQueue, lanes: Collection[str]) -> bool:
    return any(found.waiting for found in await queue.lanes() if found.lane in lanes)


async def _is_any_channel_due(queue: AsyncQueue, lanes: Collection[str] | None) -> bool:
    after = None
    while True:
        page = await queue.channels(after=after, limit=PAGE)
        for channel in page:
            if channel.due and not channel.paused and await _is_channel_due(queue, channel.channel, lanes):
                return True
        if len(page) < PAGE:
            return False
        after = page[-1].channel


async def _is_channel_due(queue: AsyncQueue, channel: str, lanes: Collection[str] | None) -> bool:
    """Whether a channel that has due messages has some in these lanes."""
    if lanes is None:
        return True
    for lane in lanes:
        if await queue.messages(channel=channel, status="due", lane=lane, limit=1):
            return True
    return False
