"""Messages that nothing here handles: perhaps a newer worker does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lonnymq.client.produce import TASK_HEADER
from lonnymq.commands import Delivery
from lonnymq.errors import LonnyMQError
from lonnymq.worker.handler_policy import Policy


class UnknownTask(LonnyMQError):
    """No task of the app is what the message is for."""

    @classmethod
    def of(cls, message: Delivery) -> UnknownTask:
        return cls(f"no task here is for {described(message)}", "give its name to a task of the app")


def described(message: Delivery) -> str:
    name = (message.headers or {}).get(TASK_HEADER)
    return "messages of no task" if name is None else f"messages of the task {name!r}"


class Unknown:
    """Stands in for the handler that there is not."""

    name = "nobody"
    policy = Policy()
    is_async = False

    def call_for(self, message: Delivery) -> Callable[[], Any]:
        raise UnknownTask.of(message)


UNKNOWN = Unknown()
