"""Install LonnyMQ into a schema of a PostgreSQL database, bring it up to date, check it, and remove it.

Each call is one transaction on a psycopg connection. Within a transaction of the caller's it joins that one,
and the caller commits. The role needs CREATE on the database, or on the schema if that exists, and CREATEROLE
to make the queue's roles; no superuser.
"""
# ruff: noqa: S608 - what goes into the SQL was quoted by lonnymq.install.naming

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lonnymq.errors import RightsTooWide, SchemaMissing, SchemaOutdated, SchemaTooNew, from_sqlstate
from lonnymq.install.files import SqlFiles, read
from lonnymq.install.naming import check_schema_name
from lonnymq.install.plan import CONTRACT, OLDEST_CONTRACT, plan, script
from lonnymq.install.refusals import is_installed
from lonnymq.install.removal import removal
from lonnymq.install.rights import StrangeOwner, StrayRight, remedy, some_of, strange_owners, stray_rights
from lonnymq.statement import identifier
from lonnymq.version import __version__

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

__all__ = [
    "CONTRACT",
    "OLDEST_CONTRACT",
    "Installed",
    "SqlFiles",
    "check",
    "inspect",
    "install",
    "plan",
    "read",
    "removal",
    "script",
    "uninstall",
    "upgrade",
    "verify",
]

_REMEMBER = "SELECT current_setting('search_path'), current_setting('check_function_bodies')"
_RESTORE = "SELECT set_config('search_path', %s, TRUE), set_config('check_function_bodies', %s, TRUE)"


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
) -> Installed:
    """Install into the schema, made if need be, or bring what is there up to date. Raises SchemaTooNew when
    what is there is of a newer release: older functions over newer tables would break it.

    With `roles`, the roles `<schema>_producer`, `_consumer`, `_observer` and `_admin` are made and given
    their rights, as they are at every later install and upgrade. Raises RoleUnsuitable when that is not
    possible.
    """
    _run(conn, plan(schema, sql_files, roles=roles))
    return inspect(conn, schema)


def upgrade(conn: Connection[Any], schema: str = "lonnymq", sql_files: SqlFiles | None = None) -> Installed:
    """Bring an installation up to date. Raises SchemaMissing when there is none."""
    _run(conn, plan(schema, sql_files, must_exist=True))
    return inspect(conn, schema)


def uninstall(conn: Connection[Any], schema: str = "lonnymq") -> None:
    """Remove the installation with all its messages, and the schema if it was made for it and is then empty.
    Its roles go too, but for those that other objects or databases need or that the caller may not drop.

    Nothing else is dropped: when something of the user's depends on what would go, PostgreSQL's error says so
    and nothing has changed. Raises SchemaMissing when there is no installation.
    """
    _run(conn, removal(schema))


def inspect(conn: Connection[Any], schema: str = "lonnymq") -> Installed:
    """What is in the schema, whether or not this package works with it. Raises SchemaMissing."""
    check_schema_name(schema)
    name = identifier(schema)
    with _cursor(conn) as cursor:
        books = _one(cursor, f"SELECT 1 WHERE {is_installed(schema)}") and _one(
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
    with _cursor(conn) as cursor:
        rights = [StrayRight(*row) for row in cursor.execute(stray_rights(schema).encode())]
        owners = [StrangeOwner(*row) for row in cursor.execute(strange_owners(schema).encode())]
    is_known = found.release == __version__  # roles of another release may have other rights
    strays = [x for x in rights if not x.is_direct and (is_known or x.grantee == "PUBLIC")]
    if strays or owners:
        raise RightsTooWide(
            f"others can bypass the queue in schema {identifier(schema)}: {some_of([*strays, *owners])}",
            f"run as its owner: {remedy(strays, owners)}",
        )
    return found


def _run(conn: Connection[Any], statements: Sequence[str]) -> None:
    with _cursor(conn) as cursor:
        for statement in statements:
            cursor.execute(statement.encode(conn.info.encoding), prepare=False)


def _one(cursor: Cursor[tuple[Any, ...]], query: str) -> tuple[Any, ...] | None:
    return cursor.execute(query.encode(cursor.connection.info.encoding), prepare=False).fetchone()


@contextmanager
def _cursor(conn: Connection[Any]) -> Iterator[Cursor[tuple[Any, ...]]]:
    """A cursor in a transaction that leaves the caller's settings as they were and raises errors of ours."""
    from psycopg import Cursor, Error
    from psycopg.pq import TransactionStatus
    from psycopg.rows import tuple_row

    joins = conn.info.transaction_status != TransactionStatus.IDLE
    try:
        with conn.transaction(), Cursor(conn, row_factory=tuple_row) as cursor:
            if not joins:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            before = _one(cursor, _REMEMBER)
            yield cursor
            if joins:
                cursor.execute(_RESTORE, before)
    except Error as error:
        ours = from_sqlstate(
            error.sqlstate, error.diag.message_primary or str(error), error.diag.message_hint
        )
        if ours is None:
            raise
        raise ours from error
