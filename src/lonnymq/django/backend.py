"""LonnyMQBackend: enqueues the tasks of Django, and reads their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from django.core.checks import CheckMessage
from django.utils import timezone

from lonnymq.client.calls import ask
from lonnymq.client.produce import check_work_options
from lonnymq.commands import Result
from lonnymq.django.backend_options import BackendOptions, check_option, imported
from lonnymq.django.call_status import CallStatus
from lonnymq.django.django_queue import DjangoQueue
from lonnymq.django.result_id import new_key, parts_of
from lonnymq.django.task import LonnyMQTask
from lonnymq.django.task_framework import (
    AnyResult,
    AnyTask,
    BaseTaskBackend,
    InvalidTask,
    TaskResultDoesNotExist,
    normalize_json,
    task_enqueued,
)
from lonnymq.django.task_message import CallHeader, as_aware, as_milliseconds
from lonnymq.django.task_results import Call, of_message, of_new_call, of_status
from lonnymq.errors import LonnyMQError
from lonnymq.message_options import TaskOptions
from lonnymq.worker.handler_policy import HandlerPolicy

TASK_OPTIONS = ("max_attempts", "max_crashes", "backoff", "timeout", "lease", "keep_result")
"""The options of a backend that a task can have, too."""


class LonnyMQBackend(BaseTaskBackend):
    """A backend of TASKS. Its `queue` has the other calls of LonnyMQ, on Django's own connection."""

    task_class = LonnyMQTask
    supports_async_task = True
    supports_get_result = True
    supports_defer = True
    supports_priority = True

    @cached_property
    def settings(self) -> BackendOptions:
        """Its OPTIONS. Raises ImproperlyConfigured."""
        return BackendOptions.of(self.alias, self.options)

    @cached_property
    def queue(self) -> DjangoQueue:
        made = DjangoQueue(self.settings.database, self.settings.schema)
        for instrument in self.settings.instrument:
            imported(instrument)(made)
        return made

    def shares_queue_with(self, other: LonnyMQBackend) -> bool:
        """Whether both use the same schema of the same database."""
        own = (self.settings.database, self.settings.schema)
        return own == (other.settings.database, other.settings.schema)

    def validate_task(self, task: AnyTask) -> None:
        """Also checks the options of LonnyMQ that the task has. Those of the backend are left to the system
        checks, which could not run if the modules with tasks could not be imported.
        """
        super().validate_task(task)
        try:
            for name in TASK_OPTIONS:
                if (own := getattr(task, name, None)) is not None:
                    self._check_own(name, own)
            check_work_options({"lane": task.queue_name, "cost": getattr(task, "cost", None)})
            HandlerPolicy(max_running=getattr(task, "max_running", None))
        except (LonnyMQError, TypeError, ValueError) as error:
            raise InvalidTask(str(error)) from error

    @staticmethod
    def _check_own(name: str, value: Any) -> None:
        try:
            check_option(name, value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def policy_of(self, task: AnyTask) -> HandlerPolicy:
        """The options of a task: its own, or else those of the backend. Raises ImproperlyConfigured."""
        chosen = {name: getattr(self.settings, name) for name in TASK_OPTIONS}
        own = {name: getattr(task, name, None) for name in TASK_OPTIONS}
        chosen |= {name: value for name, value in own.items() if value is not None}
        options: TaskOptions = {
            "lane": task.queue_name,
            "cost": getattr(task, "cost", None),
            "max_attempts": chosen["max_attempts"] + chosen["max_crashes"],
            "keep_result": chosen["keep_result"],
        }
        return HandlerPolicy(
            options=options,
            timeout=chosen["timeout"],
            lease=chosen["lease"],
            max_running=getattr(task, "max_running", None),
            max_failures=chosen["max_attempts"],
            **({} if chosen["backoff"] is None else {"backoff": chosen["backoff"]}),
        )

    def enqueue(self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> AnyResult:
        """Enqueue a call, in the transaction that is open on Django's connection."""
        self.validate_task(task)
        run_after: datetime | None = task.run_after
        call = Call(
            path=task.module_path,
            header=CallHeader(
                new_key(),
                self.alias,
                as_milliseconds(timezone.now()),
                None if run_after is None else as_milliseconds(run_after),
                getattr(task, "channel", None),
            ),
            args=normalize_json(list(args)),
            kwargs=normalize_json(dict(kwargs)),
            queue_name=task.queue_name,
            priority=task.priority,
        )
        options: dict[str, Any] = {
            **self.policy_of(task).options,
            "headers": call.header.headers(call.path),
            "priority": int(task.priority),
            "run_at": None if run_after is None else as_aware(run_after),
        }
        created = self.queue.enqueue(
            {"args": call.args, "kwargs": call.kwargs},
            channel=self.settings.channel_of(task, args, kwargs),
            **options,
        )
        result = of_new_call(created.id or 0, call, task)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> AnyResult:
        """Raises TaskResultDoesNotExist if there never was such a task, or nothing of it is kept any more."""
        if (parts := parts_of(result_id)) is None:
            raise TaskResultDoesNotExist(result_id)
        message_id, key = parts
        message, status = self.queue.perform(ask(CallStatus(message_id)))
        found = of_status(status, self.alias, key) if message is None else of_message(message)
        if found is None or parts_of(found.id) != parts:
            raise TaskResultDoesNotExist(result_id)
        return found

    def cancel(self, result_id: str) -> bool:
        """Cancel a task, unless it has finished. One that runs is stopped when its worker learns of it, in a
        few seconds. Returns whether it was cancelled. Raises TaskResultDoesNotExist.
        """
        self.get_result(result_id)
        return self.queue.cancel(self._message_id(result_id)) in {Result.CANCELLED, Result.MARKED}

    def retry(self, result_id: str) -> bool:
        """Run a task again that has failed. Returns whether it had. Raises TaskResultDoesNotExist."""
        self.get_result(result_id)
        (outcome,) = self.queue.dead.retry([self._message_id(result_id)])
        return outcome.result is Result.RETRIED

    @staticmethod
    def _message_id(result_id: str) -> int:
        parts = parts_of(result_id)
        return 0 if parts is None else parts[0]

    def check(self, **kwargs: Any) -> Iterable[CheckMessage]:
        from lonnymq.django.checks import check_backend

        return [*super().check(**kwargs), *check_backend(self)]
