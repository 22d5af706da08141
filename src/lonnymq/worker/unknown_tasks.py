"""Messages that no handler here is for. A newer worker may have one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import Delivery
from lonnymq.errors import LonnyMQError
from lonnymq.worker.handler_policy import HandlerPolicy


class UnknownTask(LonnyMQError):
    """The app has no task for the message."""

    @classmethod
    def of(cls, message: Delivery) -> UnknownTask:
        return cls(
            f"message {message.id} has no handler here: it is {kind_of(message)}",
            "add the task to the app, or an @app.consume handler for messages without a task",
        )


def kind_of(message: Delivery) -> str:
    name = (message.headers or {}).get(TASK_HEADER)
    return "without a task" if name is None else f"for the task {name!r}"


class UnknownHandler:
    """Takes the place of the missing handler."""

    name = "no handler"
    policy = HandlerPolicy()
    is_async = False

    def call_for(self, message: Delivery) -> Callable[[], Any]:
        raise UnknownTask.of(message)


UNKNOWN_HANDLER = UnknownHandler()
