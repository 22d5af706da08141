"""LonnyMQ: a multi-tenant message queue inside PostgreSQL.

Each name is loaded when it is first used, so that a program only pays for what it uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from lonnymq.version import __version__

if TYPE_CHECKING:
    from lonnymq.client.async_queue import AsyncBatch, AsyncQueue
    from lonnymq.client.produce import Enqueued
    from lonnymq.client.queue import Batch, Queue
    from lonnymq.commands import (
        AuditEntry,
        BatchStatus,
        BatchSummary,
        ChannelExplanation,
        ChannelPolicy,
        ChannelStatistics,
        Created,
        DeadGroup,
        DeadMessage,
        Delivery,
        Extended,
        FinishedMessage,
        Lane,
        ListedMessage,
        ListedWorker,
        Message,
        Outcome,
        PastPolicy,
        PastRun,
        Place,
        QueueSettings,
        QueueStatistics,
        Result,
        Schedule,
        ScheduleDetails,
        Status,
        TaskSummary,
    )
    from lonnymq.errors import LonnyMQError
    from lonnymq.message_options import MessageOptions, NewMessage, TaskOptions, WorkOptions
    from lonnymq.worker.app import App
    from lonnymq.worker.backoff import Backoff
    from lonnymq.worker.exceptions import Discard, Fail, JobStopped, LeaseLost, Retry
    from lonnymq.worker.handle import AsyncHandle, Handle
    from lonnymq.worker.job import AsyncJob, Job
    from lonnymq.worker.stop_reason import StopReason
    from lonnymq.worker.task import Task
    from lonnymq.worker.worker import Worker

__all__ = [
    "App",
    "AsyncBatch",
    "AsyncHandle",
    "AsyncJob",
    "AsyncQueue",
    "AuditEntry",
    "Backoff",
    "Batch",
    "BatchStatus",
    "BatchSummary",
    "ChannelExplanation",
    "ChannelPolicy",
    "ChannelStatistics",
    "Created",
    "DeadGroup",
    "DeadMessage",
    "Delivery",
    "Discard",
    "Enqueued",
    "Extended",
    "Fail",
    "FinishedMessage",
    "Handle",
    "Job",
    "JobStopped",
    "Lane",
    "LeaseLost",
    "ListedMessage",
    "ListedWorker",
    "LonnyMQError",
    "Message",
    "MessageOptions",
    "NewMessage",
    "Outcome",
    "PastPolicy",
    "PastRun",
    "Place",
    "Queue",
    "QueueSettings",
    "QueueStatistics",
    "Result",
    "Retry",
    "Schedule",
    "ScheduleDetails",
    "Status",
    "StopReason",
    "Task",
    "TaskOptions",
    "TaskSummary",
    "WorkOptions",
    "Worker",
    "__version__",
]

_HOMES = {
    "App": "lonnymq.worker.app",
    "AsyncBatch": "lonnymq.client.async_queue",
    "AsyncHandle": "lonnymq.worker.handle",
    "AsyncJob": "lonnymq.worker.job",
    "AsyncQueue": "lonnymq.client.async_queue",
    "AuditEntry": "lonnymq.commands",
    "Backoff": "lonnymq.worker.backoff",
    "Batch": "lonnymq.client.queue",
    "BatchStatus": "lonnymq.commands",
    "BatchSummary": "lonnymq.commands",
    "ChannelExplanation": "lonnymq.commands",
    "ChannelPolicy": "lonnymq.commands",
    "ChannelStatistics": "lonnymq.commands",
    "Created": "lonnymq.commands",
    "DeadGroup": "lonnymq.commands",
    "DeadMessage": "lonnymq.commands",
    "Delivery": "lonnymq.commands",
    "Discard": "lonnymq.worker.exceptions",
    "Enqueued": "lonnymq.client.produce",
    "Extended": "lonnymq.commands",
    "Fail": "lonnymq.worker.exceptions",
    "FinishedMessage": "lonnymq.commands",
    "Handle": "lonnymq.worker.handle",
    "Job": "lonnymq.worker.job",
    "JobStopped": "lonnymq.worker.exceptions",
    "Lane": "lonnymq.commands",
    "LeaseLost": "lonnymq.worker.exceptions",
    "ListedMessage": "lonnymq.commands",
    "ListedWorker": "lonnymq.commands",
    "LonnyMQError": "lonnymq.errors",
    "Message": "lonnymq.commands",
    "MessageOptions": "lonnymq.message_options",
    "NewMessage": "lonnymq.message_options",
    "Outcome": "lonnymq.commands",
    "PastPolicy": "lonnymq.commands",
    "PastRun": "lonnymq.commands",
    "Place": "lonnymq.commands",
    "Queue": "lonnymq.client.queue",
    "QueueSettings": "lonnymq.commands",
    "QueueStatistics": "lonnymq.commands",
    "Result": "lonnymq.commands",
    "Retry": "lonnymq.worker.exceptions",
    "Schedule": "lonnymq.commands",
    "ScheduleDetails": "lonnymq.commands",
    "Status": "lonnymq.commands",
    "StopReason": "lonnymq.worker.stop_reason",
    "Task": "lonnymq.worker.task",
    "TaskOptions": "lonnymq.message_options",
    "TaskSummary": "lonnymq.commands",
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
