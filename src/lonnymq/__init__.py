"""LonnyMQ: a multi-tenant message queue inside PostgreSQL.

Each name is loaded when it is first used, so that a program only pays for what it uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from lonnymq.version import __version__

if TYPE_CHECKING:
    from lonnymq.client.async_queue import AsyncQueue
    from lonnymq.client.produce import Enqueued
    from lonnymq.client.queue import Queue
    from lonnymq.commands import (
        ChannelPolicy,
        ChannelStatistics,
        Created,
        DeadMessage,
        Delivery,
        Extended,
        FinishedMessage,
        Lane,
        ListedMessage,
        Message,
        Outcome,
        QueueSettings,
        QueueStatistics,
        Result,
    )
    from lonnymq.errors import LonnyMQError
    from lonnymq.message_options import MessageOptions, NewMessage, WorkOptions
    from lonnymq.worker.app import App
    from lonnymq.worker.backoff import Backoff
    from lonnymq.worker.exceptions import Discard, JobStopped, LeaseLost, Retry
    from lonnymq.worker.job import AsyncJob, Job
    from lonnymq.worker.task import Task
    from lonnymq.worker.worker import Worker

__all__ = [
    "App",
    "AsyncJob",
    "AsyncQueue",
    "Backoff",
    "ChannelPolicy",
    "ChannelStatistics",
    "Created",
    "DeadMessage",
    "Delivery",
    "Discard",
    "Enqueued",
    "Extended",
    "FinishedMessage",
    "Job",
    "JobStopped",
    "Lane",
    "LeaseLost",
    "ListedMessage",
    "LonnyMQError",
    "Message",
    "MessageOptions",
    "NewMessage",
    "Outcome",
    "Queue",
    "QueueSettings",
    "QueueStatistics",
    "Result",
    "Retry",
    "Task",
    "WorkOptions",
    "Worker",
    "__version__",
]

_HOMES = {
    "App": "lonnymq.worker.app",
    "AsyncJob": "lonnymq.worker.job",
    "AsyncQueue": "lonnymq.client.async_queue",
    "Backoff": "lonnymq.worker.backoff",
    "ChannelPolicy": "lonnymq.commands",
    "ChannelStatistics": "lonnymq.commands",
    "Created": "lonnymq.commands",
    "DeadMessage": "lonnymq.commands",
    "Delivery": "lonnymq.commands",
    "Discard": "lonnymq.worker.exceptions",
    "Enqueued": "lonnymq.client.produce",
    "Extended": "lonnymq.commands",
    "FinishedMessage": "lonnymq.commands",
    "Job": "lonnymq.worker.job",
    "JobStopped": "lonnymq.worker.exceptions",
    "Lane": "lonnymq.commands",
    "LeaseLost": "lonnymq.worker.exceptions",
    "ListedMessage": "lonnymq.commands",
    "LonnyMQError": "lonnymq.errors",
    "Message": "lonnymq.commands",
    "MessageOptions": "lonnymq.message_options",
    "NewMessage": "lonnymq.message_options",
    "Outcome": "lonnymq.commands",
    "Queue": "lonnymq.client.queue",
    "QueueSettings": "lonnymq.commands",
    "QueueStatistics": "lonnymq.commands",
    "Result": "lonnymq.commands",
    "Retry": "lonnymq.worker.exceptions",
    "Task": "lonnymq.worker.task",
    "WorkOptions": "lonnymq.message_options",
    "Worker": "lonnymq.worker.worker",
}


if not TYPE_CHECKING:  # else any name would seem to be there

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
