"""Runs lonnymq_worker with the options that the suite gives to its own worker."""

from typing import Any

from lonnymq.django.management.commands import lonnymq_worker


class Command(lonnymq_worker.Command):
    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        parser.add_argument("--batch", action="store_true", dest="until_empty")
        parser.add_argument("--worker-id", dest="name")
        parser.add_argument("--no-startup-delay", action="store_true")
        parser.set_defaults(queue_name="default", unknown_task_timeout=0, concurrency=1)

    stealth_options = ("batch", "worker_id", "interval", "startup_delay", "backend_name")

    def handle(self, *args: Any, **options: Any) -> None:
        for ours, theirs in {"until_empty": "batch", "name": "worker_id", "backend": "backend_name"}.items():
            if options.get(theirs):
                options[ours] = options[theirs]
        super().handle(*args, **options)
