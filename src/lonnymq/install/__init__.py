"""Installs LonnyMQ into a schema of a PostgreSQL database, upgrades it, checks it, and uninstalls it.

Each call is one transaction on a psycopg connection. If the connection is in a transaction already, the call
is part of that, and the caller commits. The role needs CREATE on the database, or on the schema if that
exists, and CREATEROLE to create the queue's roles. It need not be a superuser. If a privilege is missing, the
call raises NotPermitted, which says what to grant.

A call waits for a lock for about a second at most, because later calls on the same table wait behind it.
While other transactions hold locks, install, upgrade and uninstall retry for up to `wait` seconds, without
locks in between, and then raise SchemaLocked, which names the transactions. In a transaction of the caller
they try once.
"""
# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.sql_text

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lonnymq.errors import InvalidArgument, RightsTooWide, SchemaMissing, SchemaOutdated, SchemaTooNew
from lonnymq.install.files import SqlFiles, read
from lonnymq.install.plan import CONTRACT, OLDEST_CONTRACT, plan, script
from lonnymq.install.preconditions import is_installed
from lonnymq.install.rights import StrangeOwner, StrayRight, remedy, some_of, strange_owners, stray_rights
from lonnymq.install.run_plan import WAIT_S, run
from lonnymq.install.transaction import execute, one, transaction
from lonnymq.install.uninstall_plan import uninstall_plan
from lonnymq.schema_name import check_schema_name
from lonnymq.statement import identifier
from lonnymq.version import __version__

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "CONTRACT",
    "OLDEST_CONTRACT",
    "WAIT_S",
    "Installed",
    "SqlFiles",
    "check",
    "inspect",
    "install",
    "plan",
    "read",
    "script",
    "uninstall",
    "uninstall_plan",
    "upgrade",
    "verify",
]


@dataclass(frozen=True)
class Installed:
    """The state of a schema: the last step applied to its tables, and the release of its functions."""

    schema: str
    step: int
    release: str
    contract: int
    oldest_contract: int


def install(
    conn: Connection[Any],
    schema: str = "lonnymq",
    sql_files: SqlFiles | None = None,
    *,
    roles: bool = False,
    wait: float = WAIT_S,
) -> Installed:
    """Install into the schema, or upgrade what is there. Creates the schema if necessary. Raises SchemaTooNew
    if a newer release is installed, because older functions would break its tables.

    With `roles`, create the roles `<schema>_producer`, `_consumer`, `_observer` and `_admin`, and grant them
    their privileges. Every later install and upgrade grants them again. Raises RoleUnsuitable if that is not
    possible.
    """
    if not isinstance(roles, bool):
        raise InvalidArgument(f"roles: {roles!r} is neither True nor False", "give a bool")
    run(conn, schema, plan(schema, sql_files, roles=roles), wait)
    return inspect(conn, schema)


def upgrade(
    conn: Connection[Any],
    schema: str = "lonnymq",
    sql_files: SqlFiles | None = None,
    *,
    wait: float = WAIT_S,
) -> Installed:
    """Upgrade an installation. Raises SchemaMissing if there is none."""
    run(conn, schema, plan(schema, sql_files, must_exist=True), wait)
    return inspect(conn, schema)


def uninstall(conn: Connection[Any], schema: str = "lonnymq", *, wait: float = WAIT_S) -> None:
    """Uninstall the queue with all its messages. Drops the schema if `install` created it and it is empty
    then, and the queue's roles, except those that other objects or databases need or that the caller may
    not drop.

    Nothing else is dropped: if one of the user's objects depends on the queue, PostgreSQL's error is raised
    and nothing is changed. Raises SchemaMissing if there is no installation.
    """
    run(conn, schema, uninstall_plan(schema), wait)


def inspect(conn: Connection[Any], schema: str = "lonnymq") -> Installed:
    """What is installed in the schema, even if this package does not work with it. Raises SchemaMissing."""
    check_schema_name(schema)
    name = identifier(schema)
    with transaction(conn, schema) as cursor:
        row = one(cursor, f"SELECT 1 WHERE {is_installed(schema)}") and one(
            cursor,
            "SELECT COALESCE(max(m.step), 0), i.release, i.contract, i.oldest_contract"
            f" FROM {name}.installation i LEFT JOIN {name}.migration m ON TRUE GROUP BY i.one",
        )
    if row is None:
        raise SchemaMissing(
            f"LonnyMQ is not installed in schema {name}",
            "run `lonnymq install`, or give the schema that it is installed in",
        )
    return Installed(schema, *row)


def check(conn: Connection[Any], schema: str = "lonnymq") -> Installed:
    """Check that this package works with the schema. It works with a newer release that still serves its
    calls.
    """
    found = inspect(conn, schema)
    if found.contract < CONTRACT:
        raise SchemaOutdated(
            f"schema {identifier(schema)} has LonnyMQ {found.release}, older than this package needs",
            "run `lonnymq upgrade`",
        )
    if found.oldest_contract > CONTRACT:
        raise SchemaTooNew(
            f"schema {identifier(schema)} has LonnyMQ {found.release}, which no longer serves this package",
            f"upgrade the lonnymq package to >= {found.release}",
        )
    return found


def verify(conn: Connection[Any], schema: str = "lonnymq") -> Installed:
    """As `check`. Also raises RightsTooWide if a role has privileges that bypass the queue."""
    found = check(conn, schema)
    with transaction(conn, schema) as cursor:
        rights = [StrayRight(*row) for row in execute(cursor, stray_rights(schema))]
        owners = [StrangeOwner(*row) for row in execute(cursor, strange_owners(schema))]
    is_same_release = found.release == __version__  # the roles of another release may have other privileges
    strays = [x for x in rights if not x.is_direct and (is_same_release or x.grantee == "PUBLIC")]
    if strays or owners:
        raise RightsTooWide(
            f"privileges bypass the queue in schema {identifier(schema)}: {some_of([*strays, *owners])}",
            f"run as its owner: {remedy(strays, owners)}",
        )
    return found
