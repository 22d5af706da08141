"""lonnymq_worker: run the tasks of a backend."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils.autoreload import get_child_arguments

from lonnymq.django.backend import LonnyMQBackend
from lonnymq.django.task_framework import (
    DEFAULT_TASK_BACKEND_ALIAS,
    FRAMEWORK,
    InvalidTaskBackend,
    task_backends,
)
from lonnymq.errors import LonnyMQError
from lonnymq.worker.processes import WorkerProcesses, child_number
from lonnymq.worker.reload import SourceFiles
from lonnymq.worker.worker import Worker
from lonnymq.worker.worker_settings import UNKNOWN_TASK_TIMEOUT_S, consumer_name

ALL = "*"
LEVELS = (logging.CRITICAL, logging.INFO, logging.INFO, logging.DEBUG)
"""Of the loggers, by --verbosity."""


class Command(BaseCommand):
    help = (
        "Run tasks until SIGTERM or Ctrl-C. The first signal lets running tasks finish; a second one stops "
        "them, and other workers run them again."
    )

    def add_arguments(self, parser: Any) -> None:
        add = parser.add_argument
        add("--backend", default=DEFAULT_TASK_BACKEND_ALIAS, help="The backend in TASKS. Default: default.")
        add(
            "--queue-name",
            default=None,
            help="Run the tasks of these queue names, separated by commas; '*': all. Default: the QUEUES of "
            "the backend.",
        )
        add("--exclude-queues", default="", help="With --queue-name '*': not of these, separated by commas.")
        add("--concurrency", type=int, default=10, help="How many tasks run at the same time. Default: 10.")
        add("--channel-share", type=float, help="At most this share of them for one channel, such as 0.5.")
        add("--processes", type=int, default=1, help="Start this many processes. Default: 1.")
        add("--lease", type=float, help="Seconds until other workers take over from one that died.")
        add(
            "--prefetch",
            type=float,
            default=0.1,
            help="Fetch tasks ahead, for this many seconds. Default: 0.1.",
        )
        add("--shutdown-timeout", type=float, default=25, help="Seconds that running tasks get to finish.")
        add("--name", help="The name of this worker. Default: host name and process id.")
        add("--until-empty", action="store_true", help="Exit once no task is due.")
        add("--health-file", type=Path, help="Write the state of the worker to this file every two seconds.")
        add("--metrics-port", type=int, help="Serve metrics for Prometheus at this port.")
        add("--metrics-host", default="127.0.0.1", help="Serve them at this address. Default: 127.0.0.1.")
        add(
            "--unknown-task-timeout",
            type=float,
            default=UNKNOWN_TASK_TIMEOUT_S,
            help="Tasks that no worker's code has fail after this many seconds. Default: a day.",
        )
        add("--reload", action="store_true", help="For development: restart when a Python file changes.")

    def handle(self, *_: Any, **options: Any) -> None:
        self._configure_logging(options["verbosity"])
        number = child_number()
        if number is None and (options["processes"] > 1 or options["reload"]):
            files = SourceFiles([Path.cwd()]) if options["reload"] else None
            self._exit(WorkerProcesses(get_child_arguments(), options["processes"], files).run())
            return
        if number is not None and options["processes"] > 1:
            self._number(number, options)
        try:
            self._exit(self._worker(options).run(until_empty=options["until_empty"]))
        except (ImproperlyConfigured, LonnyMQError) as error:
            raise CommandError(str(error)) from error

    def _worker(self, options: dict[str, Any]) -> Worker:
        from lonnymq.django.worker_app import DjangoApp

        backend = self._backend(options["backend"])
        name = consumer_name(options["name"])
        app = DjangoApp(backend, name)
        app.load_tasks()  # here, because an event loop runs later: modules may use the database
        return Worker(
            app,
            concurrency=options["concurrency"],
            lanes=self._lanes(backend, options),
            channel_share=options["channel_share"],
            lease=options["lease"],
            prefetch=options["prefetch"],
            shutdown_timeout=options["shutdown_timeout"],
            name=name,
            health_file=options["health_file"],
            unknown_task_timeout=options["unknown_task_timeout"],
            metrics_port=options["metrics_port"],
            metrics_host=options["metrics_host"],
        )

    @staticmethod
    def _backend(alias: str) -> LonnyMQBackend:
        try:
            backend = task_backends[alias]
        except InvalidTaskBackend as error:
            raise CommandError(str(error)) from error
        if not isinstance(backend, LonnyMQBackend):
            raise CommandError(f"TASKS[{alias!r}] is not a LonnyMQBackend, so it needs no worker of LonnyMQ")
        return backend

    @staticmethod
    def _lanes(backend: LonnyMQBackend, options: dict[str, Any]) -> list[str] | None:
        given: str | None = options["queue_name"]
        excluded = set(filter(None, options["exclude_queues"].split(",")))
        if excluded and given != ALL:
            raise CommandError("--exclude-queues can only be used with --queue-name=*")
        if given is not None and given != ALL:
            names = [name.strip() for name in given.split(",")]
            if unknown := sorted(set(names) - backend.queues) if backend.queues else []:
                raise CommandError(
                    f"--queue-name: {unknown[0]!r} is not one of the QUEUES of TASKS[{backend.alias!r}]:"
                    f" {', '.join(sorted(backend.queues))}"
                )
            return names
        known = backend.queues
        if not known and excluded:
            raise CommandError("--exclude-queues needs a backend that names its QUEUES")
        if not known or (given == ALL and not excluded):
            return None
        return sorted(known - excluded)

    @staticmethod
    def _number(number: int, options: dict[str, Any]) -> None:
        """Each process has a name, a health file and a port of its own."""
        if options["name"]:
            options["name"] += f"-{number}"
        if (file := options["health_file"]) is not None:
            options["health_file"] = file.with_stem(f"{file.stem}-{number}")
        if options["metrics_port"]:
            options["metrics_port"] += number - 1

    def _configure_logging(self, verbosity: int) -> None:
        """As far as the settings do not: a project with LOGGING has its own handlers and levels."""
        for name in ("lonnymq", FRAMEWORK):
            logger = logging.getLogger(name)
            if not settings.LOGGING:
                logger.setLevel(LEVELS[verbosity])
            if not logger.hasHandlers():
                handler = logging.StreamHandler(self.stderr)
                handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
                logger.addHandler(handler)

    @staticmethod
    def _exit(code: int) -> None:
        if code:
            sys.exit(code)
