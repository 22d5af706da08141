"""The App that a worker of Django runs. It finds the task of a message by its path."""

from __future__ import annotations

import logging
import sys
from typing import Any, cast

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from lonnymq.client.queue import Queue
from lonnymq.commands import Delivery
from lonnymq.django.backend import LonnyMQBackend
from lonnymq.django.backend_options import imported
from lonnymq.django.database import address_of
from lonnymq.django.run_task import TaskHandler
from lonnymq.django.task_framework import AnyTask, InvalidTaskBackend, Task, task_backends
from lonnymq.django.task_message import CallHeader, path_of
from lonnymq.django.task_results import task_at
from lonnymq.worker.app import App
from lonnymq.worker.task import Handler

log = logging.getLogger("lonnymq.django")

TASKS_MODULE = "tasks"


class DjangoApp(App):
    """`worker` is the name of the worker, which becomes part of the results."""

    def __init__(self, backend: LonnyMQBackend, worker: str) -> None:
        settings = backend.settings
        queue = Queue(address_of(settings.worker_database or settings.database), settings.schema)
        for instrument in settings.instrument:
            imported(instrument)(queue)
        super().__init__(queue)
        self._backend = backend
        self._worker = worker
        self._handlers: dict[tuple[str, str], TaskHandler] = {}
        self._missing: set[str] = set()

    def load_tasks(self) -> None:
        """Import the modules `tasks` of the installed apps, as Celery does. Tasks elsewhere are found when
        their first message arrives.
        """
        autodiscover_modules(TASKS_MODULE)
        for config in apps.get_app_configs():
            module = sys.modules.get(f"{config.name}.{TASKS_MODULE}")
            for found in list(vars(module).values()) if module is not None else ():
                if isinstance(found, Task) and found.backend == self._backend.alias:
                    self._handler(found.module_path, found, self._backend)

    def handler_of(self, message: Delivery) -> Handler | None:
        """None if the code here does not have the task: another worker may have it."""
        path, header = path_of(message.headers), CallHeader.of(message.headers)
        if path is None or header is None:
            return None
        if (known := self._handlers.get((path, header.backend))) is not None:
            return known
        try:
            backend = self._backend_of(header)
            return self._handlers.get((path, backend.alias)) or self._handler(path, task_at(path), backend)
        except Exception as error:  # noqa: BLE001 - of a module of the project
            if path not in self._missing:
                self._missing.add(path)
                log.warning("there is no task %s here: %s", path, error)
            return None

    def _handler(self, path: str, task: AnyTask, backend: LonnyMQBackend) -> TaskHandler:
        made = self._handlers[path, backend.alias] = TaskHandler(path, task, backend, self._worker)
        self.tasks[path] = cast("Any", made)
        return made

    def _backend_of(self, header: CallHeader) -> LonnyMQBackend:
        """Several backends may share a queue. That of a message may have been removed from the settings."""
        own = self._backend
        try:
            found = task_backends[header.backend]
        except InvalidTaskBackend:
            return own
        return found if isinstance(found, LonnyMQBackend) and found.shares_queue_with(own) else own
