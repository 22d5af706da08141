"""lonnymq_install: install or upgrade the schemas of the backends in TASKS."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from lonnymq.django.schemas import backends, install_in
from lonnymq.errors import LonnyMQError


class Command(BaseCommand):
    help = "Install the queues of the backends in TASKS, or upgrade them. `migrate` does so, too."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--database", help="Only in this database of DATABASES. Default: in all.")
        parser.add_argument(
            "--roles",
            action="store_true",
            help="Create the roles <schema>_producer, _consumer, _observer and _admin, too.",
        )

    def handle(self, *_: Any, database: str | None, roles: bool, **__: Any) -> None:
        used = sorted({backend.settings.database for backend in backends()})
        if database is not None and database not in used:
            raise CommandError(f"no backend in TASKS uses the database {database!r}")
        if not used:
            raise CommandError("no backend in TASKS is of LonnyMQ: see docs/django.md")
        for alias in used if database is None else [database]:
            try:
                installed = install_in(alias, roles=roles)
            except LonnyMQError as error:
                raise CommandError(str(error)) from error
            for each in installed:
                self.stdout.write(f"{alias}: LonnyMQ {each.release} is installed in schema {each.schema}")
