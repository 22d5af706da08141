"""One leased message with a taskiq task, from its dequeue until the database has its outcome."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lonnymq.worker.handler_policy import HandlerPolicy
from lonnymq.worker.leased import LeasedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from taskiq import TaskiqResult

    from lonnymq.commands import Delivery
    from lonnymq.worker.progress import Progress

TASK_ID_HEADER = "taskiq-id"
SCHEDULE_HEADER = "taskiq-schedule"


@dataclass(frozen=True)
class TaskHandler:
    """Stands for the task in logs. taskiq runs it."""

    name: str
    policy: HandlerPolicy = field(default_factory=HandlerPolicy)
    is_async: bool = True
    calling_packages: tuple[str, ...] = ()

    def call_for(self, message: Delivery) -> Callable[[], Any]:
        raise NotImplementedError


class TaskMessage(LeasedMessage):
    """`data` is the message as taskiq reads it. `result` is what taskiq told about an attempt that raised;
    middlewares may change its error later.
    """

    __slots__ = ("data", "ended", "is_started", "reports", "result", "task_id")

    def __init__(
        self,
        message: Delivery,
        handler: TaskHandler,
        lease_s: float,
        received_at: float,
        task_id: str,
        data: bytes,
        reports: Progress,
    ) -> None:
        super().__init__(message, handler, lease_s, received_at)
        self.task_id = task_id
        self.data = data
        self.reports = reports
        self.result: TaskiqResult[Any] | None = None
        self.is_started = False
        self.ended = asyncio.Event()


CURRENT: ContextVar[TaskMessage | None] = ContextVar("lonnymq_taskiq_message", default=None)
"""The message whose task runs in this context."""
