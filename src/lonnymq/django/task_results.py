"""TaskResults, made of what the queue knows: a message, a delivery, or a kept result.

A message that waits, is leased or is dead has all that a TaskResult needs. When a task has succeeded, its
message is gone; so what is kept as its result is not only what the function returned, but the whole call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils.module_loading import import_string

from lonnymq.commands import Delivery, Message, Status
from lonnymq.django.error_text import task_error
from lonnymq.django.result_id import result_id
from lonnymq.django.task import as_stored
from lonnymq.django.task_framework import AnyResult, AnyTask, Task, TaskError, TaskResult, TaskResultStatus
from lonnymq.django.task_message import CallHeader, as_milliseconds, as_time, path_of
from lonnymq.errors import LonnyMQError
from lonnymq.payload import decode

CANCELLED_TASK = "lonnymq.cancelled_task"
"""The path of the task in the result of a cancelled task: nothing else of it is kept."""
UNKNOWN_WORKER = "unknown"
"""Stands for the workers of earlier attempts: the queue knows the last one."""
STATUSES = {
    "due": TaskResultStatus.READY,
    "scheduled": TaskResultStatus.READY,
    "leased": TaskResultStatus.RUNNING,
    "dead": TaskResultStatus.FAILED,
}


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a task, as it is kept with its result. Times are Unix milliseconds."""

    path: str
    header: CallHeader
    args: list[Any]
    kwargs: dict[str, Any]
    queue_name: str
    priority: int

    @classmethod
    def of(cls, message: Message | Delivery) -> Call:
        """Raises a PayloadError if the content cannot be read, and KeyError or TypeError if it is not that of
        a call.
        """
        header, path, payload = CallHeader.of(message.headers), path_of(message.headers), message.payload
        if header is None or path is None:
            raise TypeError(f"message {message.id} is not a call of a task of Django")
        return cls(
            path=path,
            header=header,
            args=list(payload["args"]),
            kwargs=dict(payload["kwargs"]),
            queue_name=message.lane,
            priority=message.priority,
        )

    def task(self) -> AnyTask:
        """The task, with the options of this call. Raises ImportError if the code does not have it."""
        return self._with_options(task_at(self.path))

    def any_task(self) -> AnyTask:
        """As `task`; if the code does not have it, a task with its path that cannot be called."""
        try:
            return self.task()
        except ImportError:
            return self._with_options(missing_task(self.path, self.header.backend))

    def _with_options(self, task: AnyTask) -> AnyTask:
        own = {} if self.header.channel is None else {"channel": self.header.channel}
        return as_stored(
            task,
            priority=self.priority,
            queue_name=self.queue_name,
            backend=self.header.backend,
            run_after=as_time(self.header.run_after),
            **own,
        )

    def kept(self, value: Any, result: AnyResult) -> dict[str, Any]:
        """What is kept when the task has returned a value."""
        return {
            "return_value": value,
            "task": self.path,
            "django": {**self.header.headers(self.path)["django"]},
            "args": self.args,
            "kwargs": self.kwargs,
            "queue_name": self.queue_name,
            "priority": self.priority,
            "started_at": _milliseconds(result.started_at),
            "last_attempted_at": _milliseconds(result.last_attempted_at),
            "worker_ids": result.worker_ids,
            "errors": [[error.exception_class_path, error.traceback] for error in result.errors],
        }


def task_at(path: str) -> AnyTask:
    """Raises ImportError if there is no task at this path. Only tasks are returned: a message must not make a
    worker call another function.
    """
    try:
        found = import_string(path)
    except ImportError:
        raise
    except Exception as error:
        raise ImportError(f"importing {path!r} failed: {error}") from error
    if not isinstance(found, Task):
        raise ImportError(f"{path!r} is not a task")  # noqa: TRY004 - as if it were not there
    return found


def missing_task(path: str, backend: str) -> AnyTask:
    """A task that stands for one that the code does not have, in results."""

    def missing() -> None:
        raise ImportError(f"there is no task {path!r}")

    missing.__module__, _, missing.__qualname__ = path.rpartition(".")
    missing.__name__ = missing.__qualname__
    made: AnyTask = object.__new__(Task)
    fields = {"func": missing, "priority": 0, "backend": backend, "queue_name": "default"}
    for name, value in {**fields, "run_after": None, "takes_context": False}.items():
        object.__setattr__(made, name, value)
    return made


def of_new_call(message_id: int, call: Call, task: AnyTask) -> AnyResult:
    """The result of a task that was just enqueued."""
    return _result(message_id, call, task, status=TaskResultStatus.READY)


def of_delivery(delivery: Delivery, call: Call, task: AnyTask, worker: str, now: datetime) -> AnyResult:
    """The result of a task of which an attempt begins."""
    return _result(
        delivery.id,
        call,
        task,
        status=TaskResultStatus.RUNNING,
        started_at=now,
        last_attempted_at=now,
        worker_ids=[*_unknown(delivery.attempts - 1), worker],
    )


def of_message(message: Message) -> AnyResult | None:
    """The result of a task whose message waits, is leased or is dead; None if it is not a call."""
    try:
        call = Call.of(message)
    except (KeyError, TypeError, LonnyMQError):
        return None
    return _result(
        message.id,
        call,
        call.any_task(),
        status=STATUSES[message.status],
        started_at=as_time(message.first_dequeued_at),
        last_attempted_at=as_time(message.dequeued_at),
        finished_at=as_time(message.dead_at),
        worker_ids=[*_unknown(message.attempts - 1), message.consumer or UNKNOWN_WORKER]
        if message.attempts
        else [],
        errors=[
            task_error(text)
            for text in [*(past.get("error") for past in message.past_errors or ()), message.error]
            if text
        ],
    )


def of_status(status: Status, alias: str, key: str) -> AnyResult | None:
    """The result of a task that was completed or cancelled; None if nothing of it is kept."""
    if status.status == "cancelled":
        return _of_cancelled(status, alias, key)
    if status.status != "completed" or status.result_content is None:
        return None
    kept = decode(status.result_content, status.result_type)
    if not isinstance(kept, dict) or (header := CallHeader.of(kept)) is None:
        return None
    call = Call(
        path=kept["task"],
        header=header,
        args=kept["args"],
        kwargs=kept["kwargs"],
        queue_name=kept["queue_name"],
        priority=kept["priority"],
    )
    made = _result(
        status.id,
        call,
        call.any_task(),
        status=TaskResultStatus.SUCCESSFUL,
        started_at=as_time(kept["started_at"]),
        last_attempted_at=as_time(kept["last_attempted_at"]),
        finished_at=as_time(status.finished_at),
        worker_ids=kept["worker_ids"],
        errors=[TaskError(exception_class_path=path, traceback=text) for path, text in kept["errors"]],
    )
    object.__setattr__(made, "_return_value", kept["return_value"])
    return made


def _of_cancelled(status: Status, alias: str, key: str) -> AnyResult:
    call = Call(
        path=CANCELLED_TASK,
        header=CallHeader(key, alias, 0),
        args=[],
        kwargs={},
        queue_name="default",
        priority=0,
    )
    text = status.error or "the task was cancelled"
    made = _result(
        status.id,
        call,
        missing_task(CANCELLED_TASK, alias),
        status=TaskResultStatus.FAILED,
        finished_at=as_time(status.finished_at),
        worker_ids=_unknown(status.attempts or 0),
        errors=[TaskError(exception_class_path="lonnymq.errors.MessageCancelled", traceback=f"{text}\n")],
    )
    return replace(made, enqueued_at=None)


def _result(
    message_id: int,
    call: Call,
    task: AnyTask,
    *,
    status: Any,
    started_at: datetime | None = None,
    last_attempted_at: datetime | None = None,
    finished_at: datetime | None = None,
    worker_ids: list[str] | None = None,
    errors: list[TaskError] | None = None,
) -> AnyResult:
    return TaskResult(
        task=task,
        id=result_id(message_id, call.header.key),
        status=status,
        enqueued_at=as_time(call.header.enqueued_at),
        started_at=started_at,
        last_attempted_at=last_attempted_at,
        finished_at=finished_at,
        args=call.args,
        kwargs=call.kwargs,
        backend=call.header.backend,
        errors=errors or [],
        worker_ids=worker_ids or [],
    )


def _unknown(attempts: int) -> list[str]:
    return [UNKNOWN_WORKER] * max(0, attempts)


def _milliseconds(at: datetime | None) -> int | None:
    return None if at is None else as_milliseconds(at)
