"""LonnyMQ: a multi-tenant message queue inside PostgreSQL."""

from lonnymq.commands import Created, Delivery, Message, Result
from lonnymq.errors import LonnyMQError
from lonnymq.queue import AsyncQueue, Enqueued, Finished, NewMessage, Queue
from lonnymq.version import __version__

__all__ = [
    "AsyncQueue",
    "Created",
    "Delivery",
    "Enqueued",
    "Finished",
    "LonnyMQError",
    "Message",
    "NewMessage",
    "Queue",
    "Result",
    "__version__",
]
