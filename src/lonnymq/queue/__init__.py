"""The queue as people use it: synchronous and asynchronous, each call described once for both."""

from lonnymq.queue.async_queue import AsyncChannel, AsyncDead, AsyncQueue
from lonnymq.queue.finished import Finished
from lonnymq.queue.producing import Enqueued, NewMessage
from lonnymq.queue.queue import Channel, Dead, Queue

__all__ = [
    "AsyncChannel",
    "AsyncDead",
    "AsyncQueue",
    "Channel",
    "Dead",
    "Enqueued",
    "Finished",
    "NewMessage",
    "Queue",
]
