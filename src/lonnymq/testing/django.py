"""For tests of a Django project: run its tasks in the test, and delete what is left of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from django.core.exceptions import ImproperlyConfigured

from lonnymq.django import LonnyMQBackend
from lonnymq.django.task_framework import DEFAULT_TASK_BACKEND_ALIAS, task_backends
from lonnymq.django.worker_app import DjangoApp
from lonnymq.message_options import Duration
from lonnymq.testing.drain_app import LIMIT, Drained, drain

WORKER = "test"
CHANNELS = 1000


def run_tasks(
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    *,
    with_scheduled: bool | Duration = False,
    limit: int = LIMIT,
    raise_errors: bool = True,
) -> Drained:
    """Run the tasks of a backend that are due, one at a time, and those that they enqueue. The arguments are
    those of `drain`. The tasks must be committed: use a TransactionTestCase, or pytest-django's
    `django_db(transaction=True)`.

        send_invoice.enqueue(7)
        assert run_tasks().completed == 1
    """
    app = DjangoApp(_backend(backend), WORKER)
    run = partial(drain, app, with_scheduled=with_scheduled, limit=limit, raise_errors=raise_errors)
    try:
        # In another thread: this one may be running what asynchronous code awaits, so tasks would wait.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run).result()
    finally:
        app.queue.as_sync().close()


def delete_tasks(backend: str = DEFAULT_TASK_BACKEND_ALIAS) -> None:
    """Delete all tasks of the schema of a backend that wait or have failed. A TransactionTestCase empties the
    tables of models only: call this in its `setUp`.
    """
    queue = _backend(backend).queue
    while waiting := queue.messages(limit=CHANNELS):
        queue.cancel_many([message.id for message in waiting])
    while dead := queue.dead.list(limit=CHANNELS):
        queue.dead.discard([message.id for message in dead])


def _backend(alias: str) -> LonnyMQBackend:
    found = task_backends[alias]
    if not isinstance(found, LonnyMQBackend):
        raise ImproperlyConfigured(f"TASKS[{alias!r}] is not a LonnyMQBackend")
    return found
