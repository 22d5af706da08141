"""The task framework that this package builds on: `django.tasks` if Django has it, which is from 6.0 on, and
otherwise the package django-tasks. Both have the same names, except for two exceptions.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lonnymq.errors import MissingExtra


def _name() -> str:
    try:
        if find_spec("django.tasks") is not None:
            return "django.tasks"
    except ModuleNotFoundError:
        raise MissingExtra("lonnymq.django needs Django", "pip install 'lonnymq[django]'") from None
    if find_spec("django_tasks") is not None:
        return "django_tasks"
    raise MissingExtra(
        "this Django has no tasks, which come with Django 6", "pip install django-tasks, or upgrade Django"
    )


FRAMEWORK = _name()
"""The module that has `task`; also the name of its logger."""

if TYPE_CHECKING or FRAMEWORK == "django_tasks":
    from django_tasks import DEFAULT_TASK_BACKEND_ALIAS, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.backends.dummy import DummyBackend
    from django_tasks.backends.immediate import ImmediateBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult
    from django_tasks.base import TaskResultStatus as _TaskResultStatus
    from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json
else:
    from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.backends.dummy import DummyBackend
    from django.tasks.backends.immediate import ImmediateBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult
    from django.tasks.base import TaskResultStatus as _TaskResultStatus
    from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

if TYPE_CHECKING:  # the classes of Django 6 have no parameters
    AnyTask = Task[..., Any]
    AnyResult = TaskResult[Any]
else:
    AnyTask, AnyResult = Task, TaskResult

TaskResultStatus: Any = _TaskResultStatus  # an enum of Django, which has no types

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "FRAMEWORK",
    "AnyResult",
    "AnyTask",
    "BaseTaskBackend",
    "DummyBackend",
    "ImmediateBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
