"""Two calls that go with reading statistics: dispatch first, and read the server's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lonnymq.errors import ChannelForbidden, NotPermitted, ReadOnlyDatabase

if TYPE_CHECKING:
    from lonnymq.client.queue import Queue


def dispatch(queue: Queue) -> bool:
    """Dispatch new messages, so that they are counted. Running consumers do this all the time.

    Returns whether this login may dispatch.
    """
    try:
        queue.dispatch()
    except (ChannelForbidden, NotPermitted, ReadOnlyDatabase):
        return False
    return True


def server_time(queue: Queue) -> int:
    """The server's clock, which all times of the queue refer to."""
    from lonnymq.client.calls import ask
    from lonnymq.client.times import ServerClock

    return queue.perform(ask(ServerClock()))
