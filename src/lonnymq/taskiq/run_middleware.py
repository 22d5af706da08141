"""Tells the consumer what taskiq's receiver does with a message: that a task starts, and that it raised."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from taskiq import TaskiqMessage, TaskiqMiddleware, TaskiqResult

from lonnymq.errors import LonnyMQError
from lonnymq.taskiq.task_message import CURRENT

if TYPE_CHECKING:
    from lonnymq.taskiq.consumer import Consumer


class TaskInterrupted(LonnyMQError):
    """The task was interrupted, because its message was cancelled or its lease was lost."""


class RunMiddleware(TaskiqMiddleware):
    """The broker's first middleware: taskiq calls it first before a task, and last after an error."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: Consumer | None = None

    def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
        """Not a coroutine: taskiq starts messages in their order, and no other must come in between."""
        if self.consumer is not None:
            CURRENT.set(self.consumer.started(message.task_id))
        return message

    def on_error(self, message: TaskiqMessage, result: TaskiqResult[Any], exception: BaseException) -> None:
        running = CURRENT.get()
        if running is None or running.task_id != message.task_id:
            return
        running.result = result
        if isinstance(exception, asyncio.CancelledError) and running.is_interrupted:
            # A waiting program would take a CancelledError for its own.
            result.error = TaskInterrupted(
                f"message {running.message.id} was interrupted: {running.stop_reason}"
            )
            if (current := asyncio.current_task()) is not None:
                current.uncancel()
