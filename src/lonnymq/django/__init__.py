"""Django's tasks on LonnyMQ: `INSTALLED_APPS += ["lonnymq.django"]`, and the backend
`lonnymq.django.LonnyMQBackend` in TASKS.

For `django.tasks` of Django 6, and for the package django-tasks on Django 5.2. In the order in which a task
passes through them:

    task_framework   the base classes: those of Django 6, or those of django-tasks
    task             a task with the options that LonnyMQ adds, such as its channel
    backend          LonnyMQBackend: enqueue, results, cancel, retry, checks
    backend_options  the OPTIONS of a backend, checked
    django_queue     a queue whose calls run on Django's own connection
    task_message     what a message carries of a call
    result_id        the id of a result, which contains the id of its message
    task_results     a TaskResult, made of a message, of a delivery or of a kept result
    call_status      reads what the queue knows about a task
    error_text       the exception class in a stored traceback
    worker_app       the App that a worker runs: finds the task of a message
    run_task         runs one attempt of a task, and sends the signals
    completion       completes a task in the transaction of its own work
    task_lists       pages of tasks with a status
    database         the address of a database of Django's settings
    schemas          installs and upgrades the schemas that the backends use
    checks           the system checks
    local_backends   the immediate and the dummy backend, for tasks with a channel
    models, admin    the pages of Django's admin
"""

from __future__ import annotations

from lonnymq.django.backend import LonnyMQBackend
from lonnymq.django.completion import complete
from lonnymq.django.local_backends import DummyBackend, ImmediateBackend
from lonnymq.django.result_id import message_id_of
from lonnymq.django.task import LonnyMQTask

__all__ = ["DummyBackend", "ImmediateBackend", "LonnyMQBackend", "LonnyMQTask", "complete", "message_id_of"]
