"""Installs and upgrades the schemas that the backends use, when Django migrates a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from lonnymq.adapters.psycopg_pool import translated_connect_errors
from lonnymq.django.backend import LonnyMQBackend
from lonnymq.django.database import address_of
from lonnymq.django.task_framework import task_backends
from lonnymq.errors import SchemaMissing, SchemaTooNew
from lonnymq.install import Installed, check, inspect, install, uninstall
from lonnymq.version import __version__

APP = "lonnymq"
FIRST_MIGRATION = "0001_install"


def backends() -> Iterator[LonnyMQBackend]:
    """The backends of TASKS that are of LonnyMQ."""
    for backend in task_backends.all():
        if isinstance(backend, LonnyMQBackend):
            yield backend


def schemas_in(database: str) -> list[str]:
    """The schemas that backends use in a database."""
    return sorted({each.settings.schema for each in backends() if each.settings.database == database})


@contextmanager
def connected(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection beside Django's: the installation retries, which it cannot in a transaction of others."""
    with translated_connect_errors():
        connection = psycopg.connect(address_of(database))
    with connection:
        yield connection


def install_in(database: str, *, roles: bool = False) -> list[Installed]:
    """Install what backends need in a database, or upgrade it."""
    if not (schemas := schemas_in(database)):
        return []
    with connected(database) as connection:
        return [install(connection, schema, roles=roles) for schema in schemas]


def uninstall_from(database: str) -> None:
    if schemas := schemas_in(database):
        with connected(database) as connection:
            for schema in schemas:
                uninstall(connection, schema)


def upgrade_after_migrate(*, using: str, **_: Any) -> None:
    """Install what is missing and upgrade what another release installed: backends and releases change after
    the first migration was applied. If that was reversed, nothing is installed.
    """
    if not (schemas := schemas_in(using)) or not _is_migrated(using):
        return
    with connected(using) as connection:
        for schema in schemas:
            if _release(connection, schema) != __version__:
                _upgrade(connection, schema)


def _upgrade(connection: psycopg.Connection[Any], schema: str) -> None:
    """A newer release stays: this package is an older one, after a deployment was rolled back. Raises
    SchemaTooNew if that release does not serve it any more.
    """
    try:
        install(connection, schema)
    except SchemaTooNew:
        check(connection, schema)


def _is_migrated(database: str) -> bool:
    modules = settings.MIGRATION_MODULES
    if APP in modules and modules[APP] is None:  # tests without migrations
        return True
    recorder = MigrationRecorder(connections[database])
    return (APP, FIRST_MIGRATION) in recorder.applied_migrations()


def _release(connection: psycopg.Connection[Any], schema: str) -> str | None:
    try:
        return inspect(connection, schema).release
    except SchemaMissing:
        return None
