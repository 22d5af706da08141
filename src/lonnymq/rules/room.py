"""How many messages a channel may release now."""

from __future__ import annotations


def channel_room(
    *, is_paused: bool, max_concurrency: int | None, leased: int, tokens: int | None
) -> int | None:
    """None: no limit. `tokens`: what the rate allows. Leases count until they end, however late.

    >>> channel_room(is_paused=False, max_concurrency=3, leased=1, tokens=None)
    2
    """
    if is_paused:
        return 0
    room = queue_room(max_concurrency, leased)
    if tokens is None:
        return room
    return max(0, tokens if room is None else min(room, tokens))


def queue_room(max_concurrency: int | None, leased: int) -> int | None:
    """How many messages a limit on leases allows, of a channel or of the whole queue."""
    return None if max_concurrency is None else max(0, max_concurrency - leased)
