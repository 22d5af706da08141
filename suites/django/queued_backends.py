"""A pytest plugin that puts our backend in the place of Django's dummy and immediate backends.

The tests name these two in their settings. In place of the dummy backend, which only stores results, there is
our backend with a list of what waits in the queue; in place of the immediate one, our backend with a worker
that runs what was enqueued before `enqueue` returns.
"""

import os
from typing import Any

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict


def pytest_configure() -> None:
    given = conninfo_to_dict(os.environ["LONNYMQ_SUITE_DSN"])
    settings.configure(
        INSTALLED_APPS=["lonnymq.django"],
        USE_TZ=True,
        SECRET_KEY="of a test",  # noqa: S106
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "HOST": given["host"],
                "PORT": given["port"],
                "NAME": given["dbname"],
                "USER": given["user"],
                "PASSWORD": given.get("password", ""),
            }
        },
    )
    django.setup()
    from django.tasks.backends import dummy, immediate
    from django.test import SimpleTestCase

    from lonnymq.django import LonnyMQBackend
    from lonnymq.django.task_results import of_message
    from lonnymq.testing.django import delete_tasks, run_tasks

    class QueuedBackend(LonnyMQBackend):
        @property
        def results(self) -> list[Any]:
            waiting = [self.queue.get(message.id) for message in self.queue.messages()]
            return [of_message(message) for message in waiting if message is not None]

        def clear(self) -> None:
            delete_tasks(self.alias)

        def get_result(self, result_id: str) -> Any:
            found = super().get_result(result_id)
            if found.errors and found.errors[0].exception_class_path.endswith("MessageCancelled"):
                raise self.gone(result_id)  # by `clear`
            return found

        @staticmethod
        def gone(result_id: str) -> Exception:
            from django.tasks.exceptions import TaskResultDoesNotExist

            return TaskResultDoesNotExist(result_id)

    class WorkedBackend(LonnyMQBackend):
        def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            result = super().enqueue(task, args, kwargs)
            run_tasks(self.alias, raise_errors=False)
            result.refresh()
            return result

    dummy.DummyBackend = QueuedBackend
    immediate.ImmediateBackend = WorkedBackend
    SimpleTestCase.databases = {"default"}  # they expect that their backends use none
