"""Install LonnyMQ into a schema of a PostgreSQL database, bring it up to date, check it, and remove it.

Each call is one transaction on a psycopg connection. Within a transaction of the caller's it joins that one,
and the caller commits. The role needs CREATE on the database, or on the schema if that exists, and CREATEROLE
to make the queue's roles; no superuser. Raises NotPermitted with what to grant where it lacks a right.

A lock is waited for about a second at most, as everybody who comes later waits meanwhile. While others hold
locks, install, upgrade and uninstall try again for up to `wait` seconds, holding nothing in between, and
then raise SchemaLocked, which says who holds them. Within a transaction of the caller's they try once.
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
from lonnymq.install.sql_text import check_schema_name
from lonnymq.install.transaction import execute, one, transaction
from lonnymq.install.uninstall_plan import uninstall_plan
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
    """What a schema holds: the last step applied to its tables, and the release its functions are of."""

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
    """Install into the schema, made if need be, or bring what is there up to date. Raises SchemaTooNew when
    what is there is of a newer release: older functions over newer tables would break it.

    With `roles`, the roles `<schema>_producer`, `_consumer`, `_observer` and `_admin` are made and given
    their rights, as they are at every later install and upgrade. Raises RoleUnsuitable when that is not
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
    """Bring an installation up to date. Raises SchemaMissing when there is none."""
    run(conn, schema, plan(schema, sql_files, must_exist=True), wait)
    return inspect(conn, schema)


def uninstall(conn: Connection[Any], schema: str = "lonnymq", *, wait: float = WAIT_S) -> None:
    """Remove the installation with all its messages, and the schema if it was made for it and is then empty.
    Its roles go too, but for those that other objects or databases need or that the caller may not drop.

    Nothing else is dropped: when something of the user's depends on what would go, PostgreSQL's error says so
    and nothing has changed. Raises SchemaMissing when there is no installation.
    """
    run(conn, schema, uninstall_plan(schema), wait)


def inspect(conn: Connection[Any], schema: str = "lonnymq") -> Installed:
    """What is in the schema, whether or not this package works with it. Raises SchemaMissing."""
    check_schema_name(schema)
    name = identifier(schema)
    with transaction(conn, schema) as cursor:
        books = one(cursor, f"SELECT 1 WHERE {is_installed(schema)}") and one(
            cursor,
            "SELECT COALESCE(max(m.step), 0), i.release, i.contract, i.oldest_contract"
            f" FROM {name}.installation i LEFT JOIN {name}.migration m ON TRUE GROUP BY i.one",
        )
    if books is None:
        raise SchemaMissing(
            f"there is no LonnyMQ in schema {name}",
            "run `lonnymq install`, or name the schema it was installed into",
        )
    return Installed(schema, *books)


def check(conn: Connection[Any], schema: str = "lonnymq") -> Installed:
    """Check that this package works with the schema. A newer one does while it still serves our calls."""
    found = inspect(conn, schema)
    if found.contract < CONTRACT:
        raise SchemaOutdated(
            f"schema {identifier(schema)} is of LonnyMQ {found.release}, older than this package needs",
            "run `lonnymq upgrade`",
        )
    if found.oldest_contract > CONTRACT:
        raise SchemaTooNew(
            f"schema {identifier(schema)} is of LonnyMQ {found.release}, which no longer serves this package",
            f"upgrade the lonnymq package to >= {found.release}",
        )
    return found


def verify(conn: Connection[Any], schema: str = "lonnymq") -> Installed:
    """As `check`, and that no role has rights that bypass the queue. Raises RightsTooWide if one does."""
    found = check(conn, schema)
    with transaction(conn, schema) as cursor:
        rights = [StrayRight(*row) for row in execute(cursor, stray_rights(schema))]
        owners = [StrangeOwner(*row) for row in execute(cursor, strange_owners(schema))]
    is_known = found.release == __version__  # roles of another release may have other rights
    strays = [x for x in rights if not x.is_direct and (is_known or x.grantee == "PUBLIC")]
    if strays or owners:
        raise RightsTooWide(
            f"others can bypass the queue in schema {identifier(schema)}: {some_of([*strays, *owners])}",
            f"run as its owner: {remedy(strays, owners)}",
        )
    return found
