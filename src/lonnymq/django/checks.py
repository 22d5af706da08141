"""The system checks: of the settings always, and of the database with `manage.py check --database`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.core.exceptions import ImproperlyConfigured

from lonnymq.client.produce import check_work_options
from lonnymq.errors import LonnyMQError, NotPermitted, SchemaError

if TYPE_CHECKING:
    from lonnymq.django.backend import LonnyMQBackend

APP_PATH = "lonnymq.django"


def check_backend(backend: LonnyMQBackend) -> Iterable[CheckMessage]:
    """What is wrong with a backend in TASKS."""
    if not apps.is_installed(APP_PATH):
        yield Error(
            f"TASKS[{backend.alias!r}] uses LonnyMQ, but its app is not installed",
            hint=f"Add {APP_PATH!r} to INSTALLED_APPS.",
            id="lonnymq.E001",
        )
    try:
        _ = backend.settings
    except ImproperlyConfigured as error:
        yield Error(str(error), hint="The guide for Django lists the options.", id="lonnymq.E002")
    for name in sorted(backend.queues):
        try:
            check_work_options({"lane": name})
        except LonnyMQError as error:
            yield Error(
                f"TASKS[{backend.alias!r}]: the queue name {name!r} cannot be the name of a lane",
                hint=error.hint,
                id="lonnymq.E003",
            )


def check_schemas(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Whether the schemas are installed and this package works with them. Only warnings: `migrate`, which
    installs them, runs these checks first.
    """
    from lonnymq.django.schemas import connected, schemas_in
    from lonnymq.install import check

    found: list[CheckMessage] = []
    for database in databases or ():
        try:
            schemas = schemas_in(database)
        except ImproperlyConfigured:  # reported by check_backend
            continue
        for schema in schemas:
            try:
                with connected(database) as connection:
                    check(connection, schema)
            except NotPermitted:  # only its owner may ask for the release
                continue
            except SchemaError as error:
                hint = f"Run `manage.py migrate --database {database}`, which installs and upgrades it."
                found.append(CheckWarning(error.message, hint=hint, id="lonnymq.W001"))
            except LonnyMQError as error:
                found.append(CheckWarning(error.message, hint=error.hint, id="lonnymq.W002"))
    return found
