"""A task of Django with the options that LonnyMQ adds."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self, TypeVar

from lonnymq.django.task_framework import AnyTask, Task
from lonnymq.message_options import Duration
from lonnymq.worker.backoff import Delays

Stored = TypeVar("Stored", bound=AnyTask)


@dataclass(frozen=True, kw_only=True)
class LonnyMQTask(Task):  # type: ignore[type-arg]
    """What `@task` makes if its backend is a LonnyMQBackend. An option that is None is that of the backend.

    `channel` is the tenant whose turn the task takes; `cost`, how much of the tenant's share it uses. A
    function that raises is called `max_attempts` times, with a `backoff` in between, and one whose worker
    dies is called again `max_crashes` times. A call that takes longer than `timeout` is stopped and has
    failed. The `lease` is how long a task stays with a worker that died. Its result is kept for
    `keep_result`. At most `max_running` calls of it run at the same time in one worker process.
    """

    channel: str | None = None
    cost: int | None = None
    max_attempts: int | None = None
    max_crashes: int | None = None
    backoff: Delays | None = None
    timeout: Duration | None = None
    lease: Duration | None = None
    keep_result: Duration | None = None
    max_running: int | None = None

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        channel: str | None = None,
    ) -> Self:
        """As Django's `using`, which makes a task with other defaults; also with another channel."""
        given: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "channel": channel,
        }
        return replace(self, **{name: value for name, value in given.items() if value is not None})


def as_stored(task: Stored, **stored: Any) -> Stored:
    """The task with what a message has of it. It is not validated: the settings may have changed since."""
    made = object.__new__(type(task))
    for field in fields(task):
        object.__setattr__(made, field.name, stored.get(field.name, getattr(task, field.name)))
    return made
