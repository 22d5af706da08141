"""The address of a database of Django's settings, for connections beside Django's own: those of workers and
of the installation.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from psycopg import pq
from psycopg.conninfo import make_conninfo

NAMES = {"HOST": "host", "PORT": "port", "NAME": "dbname", "USER": "user", "PASSWORD": "password"}


def check_is_postgresql(database: str) -> None:
    """Raise ImproperlyConfigured unless the alias names a PostgreSQL database of the settings."""
    if database not in connections.databases:
        known = ", ".join(repr(alias) for alias in connections.databases)
        raise ImproperlyConfigured(f"there is no database {database!r} in DATABASES, which has {known}")
    if (vendor := connections[database].vendor) != "postgresql":
        raise ImproperlyConfigured(
            f"the database {database!r} is {vendor}, and LonnyMQ needs PostgreSQL. Name another database of "
            'DATABASES in the OPTIONS of the backend: {"database": ...}'
        )


def address_of(database: str) -> str:
    """The address, as libpq writes it. In tests it is that of the test database."""
    check_is_postgresql(database)
    settings: dict[str, Any] = connections[database].settings_dict
    options: dict[str, Any] = settings.get("OPTIONS") or {}
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    given = {name: value for name, value in options.items() if name in known}
    given |= {libpq: settings[name] for name, libpq in NAMES.items() if settings.get(name)}
    if role := options.get("assume_role"):
        given["options"] = f"{given.get('options', '')} -c role={_escaped(str(role))}".strip()
    return make_conninfo(**given)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
